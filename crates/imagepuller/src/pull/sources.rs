//! The places that may have an image. Each content is asked for in order, so one place can make up
//! for what another has lost.

use std::sync::{Arc, OnceLock};

use pull_route::Route;
use registry_client::registry::Registry;

use super::Options;
use crate::error::{Error, chain};
use crate::progress::{Event, Progress};

/// The sources of one repository, first choice first.
#[derive(Debug)]
pub struct Sources {
    all: Vec<NamedRegistry>,
    progress: Progress,
}

#[derive(Debug)]
struct NamedRegistry {
    name: String,
    registry: Registry,
    /// Why nothing more is asked there during this pull.
    down: OnceLock<Arc<Error>>,
}

impl Sources {
    /// The mirror and the registry of a repository's route.
    pub fn new(route: &Route, repository: &str, options: &Options) -> Self {
        let (settings, patience) = (&route.settings, &options.patience);
        let all = route.sources.iter().map(|source| NamedRegistry {
            name: source.to_string(),
            registry: Registry::new(source.clone(), repository, settings, patience),
            down: OnceLock::new(),
        });
        Self {
            all: all.collect(),
            progress: options.progress.clone(),
        }
    }

    /// Asks one source after another until one gives what is wanted, verified.
    ///
    /// # Errors
    ///
    /// What is wrong on this side ends it at once; otherwise what each source had to say.
    pub async fn first<'a, T, F, R>(&'a self, ask: F) -> Result<T, Error>
    where
        F: Fn(&'a Registry) -> R,
        R: Future<Output = Result<T, Error>>,
    {
        let is_only = self.all.len() == 1;
        let mut errors: Vec<(String, Arc<Error>)> = Vec::new();
        for (at, source) in self.all.iter().enumerate() {
            if let Some(error) = source.down.get() {
                errors.push((source.name.clone(), error.clone()));
                continue;
            }
            let error = match ask(&source.registry).await {
                Ok(content) => return Ok(content),
                Err(error) if error.is_local() => return Err(error),
                Err(error) => Arc::new(error),
            };
            // Without another one its error ends the pull.
            if !is_only && error.is_source_down() {
                let _ = source.down.set(error.clone());
            }
            if at + 1 < self.all.len() {
                let text = chain(&error);
                tracing::warn!(source = source.name, error = text, "source failed");
                self.progress.tell(Event::SourceFailed {
                    source: source.name.clone(),
                    error: text,
                });
            }
            errors.push((source.name.clone(), error));
        }
        Err(Error::of_sources(errors))
    }
}
