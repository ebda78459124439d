//! Why our verdicts differ from skopeo's, and for which recorded rows. Where a reason has to do
//! with how something is written, the row is judged again without it, and must then have the
//! recorded verdict; or differ for another reason only.

use oci_image::named::NamedReference;

use super::super::Difference;
use super::super::evidence::{with_der, with_strict_base64};
use super::super::registry::Seen;
use super::{ALL, Row, View, verdict_of};

pub(super) static DIFFERENCES: &[Difference<Row<'static>>] = &[
    Difference {
        why: "a reference may have a tag and a digest here",
        holds: |row| {
            let reference = row.reference();
            let has_both = |one: NamedReference| one.tag().is_some() && one.digest().is_some();
            row.theirs == "other" && reference.is_some_and(has_both)
        },
        rows: &[],
    },
    Difference {
        why: "a scope that no image can have refuses the policy, for a wider one decides then",
        holds: |row| {
            let without = row.written().without_scopes_of_no_image();
            let is_it = row.ours.contains("has scopes that no image can have");
            let without = without.filter(|_| is_it);
            without.is_some_and(|policy| row.instead(policy.text(), &row.name).is_explained())
        },
        rows: &[
            "23", "24", "30", "31", "32", "33", "34", "35", "43", "45", "52", "58", "59", "60",
            "68", "71",
        ],
    },
    Difference {
        why: "what is broken in registries.d is not looked at, for nothing here goes by it",
        holds: |row| row.theirs == "other" && row.registries_d() != "attach",
        rows: &["1129", "1130", "1131", "1132"],
    },
    Difference {
        why: "OpenPGP is not verified here, so that signedBy refuses every image",
        holds: |row| {
            let is_it = row.ours.contains(" a requirement signedBy, ");
            let fulfilled = row.written().with_open_pgp_fulfilled();
            let fulfilled = fulfilled.filter(|_| is_it && row.theirs == "accepted");
            fulfilled.is_some_and(|policy| row.instead(policy.text(), &row.name).is_explained())
        },
        rows: &[
            "220",
            "533",
            "536",
            "784",
            "787",
            "792",
            "793",
            "794",
            "797",
            "798",
            "800",
            "801",
            "802",
            "808",
            "809",
            "816 (1.22)",
            "819 (1.22)",
            "822",
            "823",
            "824",
            "825",
            "826",
            "827",
            "841",
            "842",
            "843",
            "844",
            "845",
            "846",
            "847",
            "848",
            "849",
            "852",
            "853",
            "854",
            "858",
            "864",
            "868",
            "869",
            "870",
            "871",
            "872",
            "873",
            "874",
            "879",
            "880",
            "883 (1.22)",
            "884",
            "887",
            "889",
            "1043",
            "1047",
            "1067",
            "1068",
            "1075",
            "1083",
            "1119",
            "1127",
        ],
    },
    Difference {
        why: "remapIdentity is not supported: it refuses the policy, by its name",
        holds: |row| row.ours.contains(" is a remapIdentity, "),
        rows: &[
            "484", "485", "487", "489", "492", "493", "496", "497", "498", "502", "507", "508",
            "509", "510", "512", "863", "1152",
        ],
    },
    Difference {
        why: "signatures are always looked for: there is no registries.d that switches it off",
        holds: |row| {
            let nothing = row.judge_as(View { is_attached: false, ..ALL });
            row.registries_d() != "attach" && row.theirs == verdict_of(&nothing)
        },
        rows: &["1077", "1078", "1089", "1098", "1101", "1110", "1113", "1114", "1118"],
    },
    Difference {
        why: "an index binds its manifests by digest: its signature is enough",
        holds: |row| {
            let without = row.judge_as(View { is_index_signed: false, ..ALL });
            row.ours == "accepted" && row.theirs == verdict_of(&without)
        },
        rows: &["933", "936", "938", "943", "993", "994", "995", "996"],
    },
    Difference {
        why: "base64 has one spelling here: no line breaks, no bits left over",
        holds: |row| {
            let policy = row.written().with_strict_keys();
            let is_of_key =
                policy.is_some_and(|policy| row.instead(policy.text(), &row.name).is_explained());
            let strict = row.judge_as(View { seen: Seen::Spelled(with_strict_base64), ..ALL });
            row.theirs == "accepted" && (is_of_key || verdict_of(&strict) == "accepted")
        },
        rows: &["174", "738", "742"],
    },
    Difference {
        why: "ECDSA signatures have one form here, DER",
        holds: |row| {
            let in_der = row.judge_as(View { seen: Seen::Spelled(with_der), ..ALL });
            row.theirs == "accepted" && verdict_of(&in_der) == "accepted"
        },
        rows: &["747"],
    },
    Difference {
        why: "RSA with fewer than 2048 bits can be broken",
        holds: |row| row.theirs == "accepted" && row.ours.contains("is RSA with fewer than"),
        rows: &["761"],
    },
    Difference {
        why: "JSON is read strictly: it is UTF-8, escapes are characters, and its depth is bounded",
        holds: |row| {
            let is_it = row.ours.contains("is no valid statement");
            row.theirs == "accepted" && is_it && row.evidence().has_odd_json()
        },
        rows: &["585", "586"],
    },
    Difference {
        why: "a host has one name, however it is spelled: its scope and its identity",
        holds: |row| {
            let as_texts = row.written().with_hosts_as_texts(&row.name);
            as_texts.is_some_and(|(policy, name)| row.instead(policy.text(), &name).is_explained())
        },
        rows: &["1160"],
    },
    Difference {
        why: "the host writes the tag: it leads past no scope of a tag and of a digest",
        holds: |row| {
            let of_name = |name| row.written().without_other_tags(&name);
            let as_named = row.reference().and_then(of_name);
            as_named.is_some_and(|policy| row.instead(policy.text(), &row.name).is_explained())
        },
        rows: &[],
    },
];
