//! `keyprovider.KeyProviderService/UnWrapKey` of the data hub's stand-in: it opens a packet with
//! the key in the vault that the packet names, whoever the packet says its provider is.

use anyhow::{Context, Result, anyhow, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::Vault;
use crate::encrypted::open_gcm;
use crate::peer::{Answer, INTERNAL};
use vm_harness::ttrpc::{fields, put};

/// The service and its method.
pub(crate) const SERVICE: &str = "keyprovider.KeyProviderService";
pub(crate) const METHOD: &str = "UnWrapKey";

/// Answers a request, which has to be as ocicrypt writes it.
pub(crate) fn answer(payload: &[u8], vault: &Vault) -> Answer {
    let refused = |_| (INTERNAL, "[CDH] [ERROR]: UnWrap Key failed".to_owned());
    Some(options(payload, vault).map_err(refused).map(|options| {
        let answer = json!({"keyunwrapresults": {"optsdata": options}});
        let mut message = Vec::new();
        put(&mut message, 1, answer.to_string().as_bytes());
        message
    }))
}

fn options(payload: &[u8], vault: &Vault) -> Result<Vec<u8>> {
    let fields = fields(payload)?;
    let [(1, question)] = &fields[..] else {
        return Err(anyhow!("a request of one field was expected"));
    };
    let question: Value = serde_json::from_slice(question)?;
    let annotation = &question["keyunwrapparams"]["annotation"];
    let parameters = json!({"attestation-agent": [STANDARD.encode("attestation-agent")]});
    let expected = json!({
        "op": "keyunwrap",
        "keywrapparams": {"ec": null, "optsdata": null},
        "keyunwrapparams": {"dc": {"Parameters": parameters}, "annotation": annotation},
    });
    ensure!(question == expected, "a question of another form");
    let packet = STANDARD.decode(annotation.as_str().context("no annotation")?)?;
    let packet: Value = serde_json::from_slice(&packet)?;
    let member = |name: &str| packet[name].as_str().context("a member is missing");
    ensure!(member("wrap_type")? == "A256GCM", "another way of wrapping");
    let key = vault.get_uri(member("kid")?).context("no such key")?;
    let iv = STANDARD.decode(member("iv")?)?;
    let wrapped = STANDARD.decode(member("wrapped_data")?)?;
    open_gcm(key.try_into()?, iv.as_slice().try_into()?, &wrapped, b"")
}
