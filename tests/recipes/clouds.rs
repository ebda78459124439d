//! Pages about the kubelet's plugins of clouds.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use end_to_end::assert_tells;
use serde_json::json;

use crate::recipes::follow::{Followed, follow};
use crate::recipes::page::{Page, Way};
use crate::recipes::registries::{Account, Shop, TokenShop};
use crate::recipes::world::{World, program};

/// A kubelet's plugin at the place where a cloud has it.
struct Plugin<'a> {
    name: &'a str,
    /// The file with the kubelet's configuration.
    config: &'a str,
    directory: &'a str,
    /// The patterns of the cloud's own configuration.
    patterns: &'a [&'a str],
    /// The registry that it is asked about.
    host: &'a str,
    /// `cacheKeyType` and `cacheDuration` of its answers.
    cache: [&'a str; 2],
    /// Its pairs, by their keys.
    auth: serde_json::Value,
}

impl Plugin<'_> {
    fn install(&self) -> Result<()> {
        let version = "credentialprovider.kubelet.k8s.io/v1";
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1",
            "kind": "CredentialProviderConfig",
            "providers": [{"name": self.name, "matchImages": self.patterns,
                "defaultCacheDuration": "12h", "apiVersion": version}],
        });
        let directory = Path::new(self.config).parent().unwrap();
        fs::create_dir_all(directory)?;
        // JSON is YAML.
        fs::write(self.config, config.to_string())?;
        let answer = json!({"kind": "CredentialProviderResponse", "apiVersion": version,
            "cacheKeyType": self.cache[0], "cacheDuration": self.cache[1], "auth": self.auth});
        let text = format!(
            "#!/bin/sh\nread -r question\ncase $question in\n*'\"image\":\"{}/'*) echo '{answer}' \
             ;;\n*) exit 1 ;;\nesac\n",
            self.host
        );
        program(Path::new(self.directory), self.name, &text)
    }
}

/// What holds for each of these pages: the plugin is found and answers, and shows nothing.
fn follow_quietly(page: &Page, way: Way, digest: &str, plugin: &Plugin<'_>) -> Result<Followed> {
    plugin.install()?;
    let followed = follow(page, way, digest)?;
    if way == Way::Node {
        assert_tells(&followed.printed, &[plugin.host, plugin.name]);
    }
    ensure!(!followed.printed.contains("hunter2"), "a password shows");
    Ok(followed)
}

/// ECR's password of twelve hours, by HTTP Basic.
pub fn ecr(page: &Page, way: Way) -> Result<()> {
    let world = World::new()?;
    let host = "123456789012.dkr.ecr.eu-central-1.amazonaws.com";
    let account = Account { username: "AWS", password: "hunter2-ecr" };
    let shop = Shop::open(&world, &world.web, host, account, "team/app")?;
    let plugin = Plugin {
        name: "ecr-credential-provider",
        config: "/etc/eks/image-credential-provider/config.json",
        directory: "/etc/eks/image-credential-provider",
        patterns: &[
            "*.dkr.ecr.*.amazonaws.com",
            "*.dkr.ecr.*.amazonaws.com.cn",
            "*.dkr.ecr-fips.*.amazonaws.com",
            "public.ecr.aws",
        ],
        host,
        cache: ["Registry", "6h0m0s"],
        auth: json!({host: {"username": "AWS", "password": "hunter2-ecr"}}),
    };
    let followed = follow_quietly(page, way, shop.digest(), &plugin)?;
    shop.assert_pulled(&world, &followed)
}

/// ACR's refresh token, which its token server takes as a password.
pub fn acr(page: &Page, way: Way) -> Result<()> {
    let world = World::new()?;
    let host = "corp.azurecr.io";
    let account = Account {
        username: "00000000-0000-0000-0000-000000000000",
        password: "hunter2-refresh-token",
    };
    let realm = "corp.azurecr.io/oauth2/token";
    let shop = TokenShop::open(&world, &world.web, host, realm, account, "team/app")?;
    let nobody = json!({"username": "", "password": ""});
    let plugin = Plugin {
        name: "acr-credential-provider",
        config: "/var/lib/kubelet/credential-provider-config.yaml",
        directory: "/var/lib/kubelet/credential-provider",
        patterns: &["*.azurecr.io", "*.azurecr.cn", "*.azurecr.de", "*.azurecr.us"],
        host,
        cache: ["Registry", "5m0s"],
        auth: json!({
            host: {"username": account.username, "password": account.password},
            "*.azurecr.io": nobody, "*.azurecr.cn": nobody, "*.azurecr.de": nobody,
            "*.azurecr.us": nobody,
        }),
    };
    let followed = follow_quietly(page, way, shop.shop.digest(), &plugin)?;
    shop.assert_pulled(&world, &followed, "/oauth2/token")
}

/// Google's access token, in answers that are for one use.
pub fn gar(page: &Page, way: Way) -> Result<()> {
    let world = World::new()?;
    let host = "europe-docker.pkg.dev";
    let account = Account { username: "_token", password: "hunter2-access-token" };
    let realm = "europe-docker.pkg.dev/v2/token";
    let shop = TokenShop::open(&world, &world.web, host, realm, account, "project/team/app")?;
    let pair = json!({"username": account.username, "password": account.password});
    let plugin = Plugin {
        name: "auth-provider-gcp",
        config: "/etc/srv/kubernetes/cri_auth_config.yaml",
        directory: "/home/kubernetes/bin",
        patterns: &["container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev"],
        host,
        cache: ["Image", "0s"],
        auth: json!({"*.gcr.io": pair, "*.pkg.dev": pair, "container.cloud.google.com": pair,
            host: pair, "gcr.io": pair}),
    };
    let followed = follow_quietly(page, way, shop.shop.digest(), &plugin)?;
    shop.assert_pulled(&world, &followed, "/v2/token")
}
