//! Which goes first, the wrapper or its settings. A sandbox may start between any two writes, and
//! an older wrapper refuses settings with a key that it does not know, while a newer one reads
//! older settings. So the newer wrapper comes before its settings, and goes after them.

use super::Pass;
use crate::fitness::is_standing_refused;
use crate::kind::Kind;
use crate::plan::PlannedFile;
use crate::{Options, Set};

impl Pass {
    /// Puts the settings in front of the wrapper where this version's wrapper would refuse those
    /// that are on the node, as after a newer version; everything that they name goes first all the
    /// same. Where they are not replaced, or the new ones would be refused too, a wrapper that is
    /// there stays: it may be the one that understands them.
    pub(super) fn order(
        &mut self,
        options: &Options,
        name: &str,
        set: &Set,
        is_refused: bool,
        files: &mut [PlannedFile],
    ) {
        let is = |kind: Kind| move |file: &PlannedFile| file.kind == kind;
        let wrapper = files.iter().position(is(Kind::Wrapper));
        let settings = files.iter().position(is(Kind::Settings));
        let (Some(wrapper), Some(settings)) = (wrapper, settings) else {
            return;
        };
        let is_replaced = files[settings].content.is_some();
        let has_wrapper = self.is_there(&files[wrapper].path);
        if !has_wrapper || !is_standing_refused(&self.node, options, set) {
            return;
        }
        if is_refused || !is_replaced {
            files[wrapper].content = None;
            self.outcome.warnings.push(format!(
                "the wrapper of the set {name} stays as it is: this version's would refuse the \
                settings of {}, which a newer one may have written",
                set.settings_file
            ));
        } else if wrapper < settings {
            files[wrapper..=settings].rotate_left(1);
        }
    }
}
