//! `[extra-env]`: the variables for the puller, of which only those about proxies have an effect.

use zeroize::Zeroizing;

use crate::limits::{MAX_NO_PROXY_BYTES, MAX_VARIABLES};
use crate::problem::Findings;
use crate::section::{Field, Section};
use crate::{Effect, ProxyUrl, Rule};

/// The variables that have an effect, each in both of its spellings.
pub(crate) const VARIABLES: [[&str; 2]; 3] =
    [["HTTP_PROXY", "http_proxy"], ["HTTPS_PROXY", "https_proxy"], ["NO_PROXY", "no_proxy"]];

/// The variables of `[extra-env]` that have an effect.
#[derive(Clone, Debug, Default)]
pub struct ExtraEnv {
    /// The proxy for plain HTTP.
    pub http_proxy: Option<ProxyUrl>,
    /// The proxy for HTTPS, which it tunnels.
    pub https_proxy: Option<ProxyUrl>,
    /// The hosts that are reached without a proxy, as written and free of control characters; Go's
    /// rules apply to it.
    pub no_proxy: Option<String>,
}

impl ExtraEnv {
    /// Whether a variable of this name has an effect.
    #[must_use]
    pub fn knows(name: &str) -> bool {
        VARIABLES.iter().flatten().any(|known| *known == name)
    }

    /// Reads the table to its end.
    pub(crate) fn read(mut section: Section<'_, '_>, findings: &mut Findings) -> Self {
        if section.len() > MAX_VARIABLES {
            findings.problem(section.place(), Rule::TooManyVariables);
            return Self::default();
        }
        let [http, https, no_proxy] =
            VARIABLES.map(|names| take_variable(names, &mut section, findings));
        for place in section.into_string_places(findings) {
            findings.warning(&place, Effect::UnknownVariable);
        }
        Self {
            http_proxy: http.and_then(|field| proxy(&field, findings)),
            https_proxy: https.and_then(|field| proxy(&field, findings)),
            no_proxy: no_proxy.and_then(|field| exceptions(field, findings)),
        }
    }
}

/// Takes a variable in either spelling. An empty one is as good as none, as in a real environment.
fn take_variable(
    [upper, lower]: [&'static str; 2],
    section: &mut Section<'_, '_>,
    findings: &mut Findings,
) -> Option<Field<Zeroizing<String>>> {
    let [first, second] = [upper, lower].map(|key| {
        let Field { place, value } = section.take_string(key, findings)?;
        value.map(|value| Field { place, value })
    });
    if let (Some(first), Some(second)) = (&first, &second)
        && first.value != second.value
    {
        findings.problem(&second.place, Rule::VariablesDisagree { other: upper });
    }
    first.or(second).filter(|field| !field.value.is_empty())
}

fn proxy(field: &Field<Zeroizing<String>>, findings: &mut Findings) -> Option<ProxyUrl> {
    match ProxyUrl::parse(&field.value) {
        Ok(proxy) => {
            if proxy.has_no_port() {
                findings.warning(&field.place, Effect::ProxyWithoutPort);
            }
            Some(proxy)
        }
        Err(rule) => {
            findings.problem(&field.place, rule);
            None
        }
    }
}

fn exceptions(field: Field<Zeroizing<String>>, findings: &mut Findings) -> Option<String> {
    let Field { place, mut value } = field;
    if value.len() > MAX_NO_PROXY_BYTES {
        findings.problem(&place, Rule::NoProxyTooLong);
        return None;
    }
    if value.chars().any(char::is_control) {
        findings.problem(&place, Rule::ControlCharacter);
        return None;
    }
    Some(std::mem::take(&mut value))
}
