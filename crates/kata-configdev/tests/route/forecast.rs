//! Whom servers should see, by what `explain --json` prints.

use serde_json::Value;

use super::documents::Case;
use super::world::{Party, REFUSED, Visit, World, fetched_user};

/// What the cases had in them: a test that never meets a rule says nothing about it.
#[derive(Debug, Default)]
pub struct Coverage {
    pub invalid: u32,
    pub refused: u32,
    by_mirror: u32,
    by_fallback: u32,
    by_further_mirror: u32,
    renamed: u32,
    lent: u32,
    fetched: u32,
    fetched_roots: u32,
    proxied: u32,
    plain: u32,
    withheld: u32,
    anonymous: u32,
    measured: u32,
    by_repository: u32,
    combined: u32,
    refused_accounts: u32,
    client_of_host: u32,
    client_of_owner: u32,
}

impl Coverage {
    pub fn assert_complete(&self) {
        let counts = [
            self.invalid,
            self.by_mirror,
            self.by_fallback,
            self.by_further_mirror,
            self.renamed,
            self.lent,
            self.fetched,
            self.fetched_roots,
            self.proxied,
            self.plain,
            self.withheld,
            self.anonymous,
            self.measured,
            self.by_repository,
            self.combined,
            self.refused_accounts,
            self.client_of_host,
            self.client_of_owner,
        ];
        assert!(counts.iter().all(|count| *count > 0), "{self:?}");
    }
}

/// Why every pull of the image fails before a host is asked.
pub fn refused(json: &Value) -> Option<String> {
    json["refused"].as_str().map(ToOwned::to_owned)
}

/// The sources that are asked, in order.
pub fn visits(json: &Value, case: &Case, world: &World, seen: &mut Coverage) -> Vec<Visit> {
    let mut visits = Vec::new();
    let further = json["further_mirrors"].as_array();
    let further = further.into_iter().flatten().map(|source| ("mirror", source));
    let sources = [("mirror", &json["mirror"])].into_iter().chain(further);
    for (role, source) in sources.chain([("registry", &json["registry"])]) {
        if source["asked"] != true {
            continue;
        }
        let Some(visit) = visit(source, role, case, world) else {
            continue;
        };
        seen.by_further_mirror += u32::from(json["further_mirrors"][0] == *source);
        seen.renamed += u32::from(source["repository"].is_string());
        seen.by_mirror += u32::from(role == "mirror");
        seen.by_fallback += u32::from(role == "registry" && json["mirror"].is_object());
        seen.lent += u32::from(source["own_entry"] == false && !visit.who.is_empty());
        seen.fetched += u32::from(source["credentials"]["kind"] == "credentials-uri");
        seen.fetched_roots += u32::from(source["roots_uri"].is_string() && visit.is_tls);
        seen.proxied += u32::from(visit.proxy.is_some());
        seen.plain += u32::from(!visit.is_tls);
        seen.withheld += u32::from(source["credentials_withheld"] == true && !visit.is_tls);
        seen.by_repository += u32::from(source["credentials_entry"].is_string());
        let is_combined = source["host_credentials"] == true && !visit.who.is_empty();
        seen.combined += u32::from(is_combined);
        seen.anonymous += u32::from(visit.who.is_empty());
        seen.refused_accounts += u32::from(visit.who.len() > 1);
        let entry = source["entry"].as_str().unwrap_or_default();
        seen.measured += u32::from(case.measured.secrets.contains_key(entry));
        seen.client_of_host += u32::from(visit.client == Some(Party::Host));
        seen.client_of_owner += u32::from(visit.client == Some(Party::Owner));
        visits.push(visit);
    }
    visits
}

fn visit(source: &Value, role: &str, case: &Case, world: &World) -> Option<Visit> {
    let (scheme, rest) = source["url"].as_str()?.split_once("://")?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let port: u16 = host.rsplit(':').next()?.parse().ok()?;
    let place = world.servers.iter().find(|place| place.port == port)?;
    let is_on = |key: &str| source[key] == true;
    let entry = source["entry"].as_str().unwrap_or_default();
    let secret = case.secret(entry);
    let for_repository = source["credentials_entry"].as_str();
    let access = match for_repository {
        None => secret.clone(),
        Some(entry) if is_on("host_credentials") => case.configuration.secrets[entry].clone(),
        Some(entry) => case.secret(entry),
    };
    if source["roots"] == 0 {
        return None;
    }
    // The web's authorities vouch for none of these servers.
    let roots = match (&source["roots_uri"], &source["roots"]) {
        (Value::String(_), _) => vec![0],
        (_, Value::Number(count)) => {
            let roots = secret.roots.clone().unwrap_or_default();
            assert_eq!(count.as_u64(), u64::try_from(roots.len()).ok(), "{source}");
            roots
        }
        _ => Vec::new(),
    };
    let may_be_plain = is_on("plain_http") || is_on("insecure_skip_verify");
    let is_tls = match place.authority {
        Some(authority) if scheme == "https" => {
            let is_trusted = is_on("insecure_skip_verify") || roots.contains(&authority);
            is_trusted.then_some(true)?
        }
        None if scheme == "http" || role == "registry" && may_be_plain => false,
        _ => return None,
    };
    let proxy = match is_tls || scheme == "http" {
        true => &source["proxy"],
        false => &source["proxy_in_clear"],
    };
    let proxy: Option<u16> = proxy.as_str().map(|url| {
        let port = url.rsplit(':').next().unwrap();
        port.parse().unwrap()
    });
    // Names below `corp` mean nothing without a proxy. HTTPS is tried first.
    let is_here = host.starts_with("localhost:") || host.starts_with("127.0.0.1:");
    let is_found = is_here || proxy.is_some();
    let is_tried = is_here || is_tls || scheme == "http" || source["proxy"].is_string();
    if !is_found || !is_tried {
        return None;
    }
    let is_kept_back = is_on("credentials_withheld") && !is_tls;
    let accounts = 1 + source["credentials"]["also"].as_array().map_or(0, Vec::len);
    let who = match source["credentials"]["kind"].as_str()? {
        _ if is_kept_back => Vec::new(),
        "anonymous" => Vec::new(),
        "credentials-uri" => vec![fetched_user(host)],
        // The first one may have been lent to a mirror.
        _ if role == "registry" => access.who[access.who.len() - accounts..].to_vec(),
        _ => access.who[..accounts].to_vec(),
    };
    let is_let_in = |who: &String| !who.starts_with(REFUSED);
    let tried = who.iter().position(is_let_in).map_or(who.len(), |at| at + 1);
    let who = who[..tried].to_vec();
    let namespace = (role == "mirror").then(|| case.image.clone());
    // The host's goes the owner's way where the owner has none.
    let is_owners = secret.has_client && case.measured.secrets.contains_key(entry);
    let client = (is_tls && is_on("client_cert")).then_some(match is_owners {
        true => Party::Owner,
        false => Party::Host,
    });
    Some(Visit {
        host: host.to_owned(),
        is_tls,
        path: if path.is_empty() { String::new() } else { format!("/{path}") },
        repository: source["repository"].as_str().unwrap_or("team/app").to_owned(),
        namespace,
        proxy,
        client,
        who,
    })
}
