//! `[extra-env]`: the variables for the puller, of which only those about proxies have an effect.

use std::net::IpAddr;

use crate::limits::{MAX_NO_PROXY_BYTES, MAX_VARIABLES};
use crate::section::Section;
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
    pub(crate) fn read(mut section: Section<'_, '_>) -> Self {
        if section.len() > MAX_VARIABLES {
            section.problem("", Rule::TooManyVariables);
            return Self::default();
        }
        let mut read = Self::default();
        for names in VARIABLES {
            let Some((key, text)) = variable(names, &mut section) else { continue };
            match section.kept(key, read.set(names[0], text)) {
                Some(Some(proxy)) if proxy.has_no_port() => {
                    section.warn(key, Effect::ProxyWithoutPort);
                }
                Some(None) if text.split(',').any(|item| matches_nothing(item.trim())) => {
                    section.warn(key, Effect::UselessException);
                }
                _ => {}
            }
        }
        for field in section.rest() {
            if section.findings.kept(&field, field.text()).is_some() {
                section.findings.warning(&field, Effect::UnknownVariable);
            }
        }
        read
    }

    /// Sets a variable, named in upper case. Returns the proxy that it is, if it is one.
    ///
    /// # Errors
    ///
    /// The rule that the value breaks.
    pub fn set(&mut self, variable: &str, value: &str) -> Result<Option<&ProxyUrl>, Rule> {
        let proxy = match variable {
            "HTTP_PROXY" => &mut self.http_proxy,
            "HTTPS_PROXY" => &mut self.https_proxy,
            _ if value.len() > MAX_NO_PROXY_BYTES => return Err(Rule::NoProxyTooLong),
            _ if value.chars().any(char::is_control) => return Err(Rule::ControlCharacter),
            _ => {
                self.no_proxy = Some(value.to_owned());
                return Ok(None);
            }
        };
        *proxy = Some(ProxyUrl::parse(value)?);
        Ok(proxy.as_ref())
    }
}

/// Whether an item of `NO_PROXY` is a URL, a pattern or several items, none of which Go knows.
fn matches_nothing(item: &str) -> bool {
    let is_path =
        item.split_once('/').is_some_and(|(address, _)| address.parse::<IpAddr>().is_err());
    let is_pattern = item.rfind('*').is_some_and(|at| at > 0);
    is_path || is_pattern || item.contains(|c: char| c == ';' || c.is_whitespace())
}

/// Takes a variable in either spelling. An empty one is as good as none, as in a real environment.
fn variable<'t>(
    names: [&'static str; 2],
    section: &mut Section<'t, '_>,
) -> Option<(&'static str, &'t str)> {
    let [first, second] = names.map(|key| Some((key, section.text(key)?)));
    if let (Some((other, first)), Some((key, second))) = (first, second) {
        section.needs(key, first == second, Rule::VariablesDisagree { other });
    }
    first.or(second).filter(|(_, text)| !text.is_empty())
}
