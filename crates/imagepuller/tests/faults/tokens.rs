//! The token server, and tokens that are no longer good.

use What::{Index, Layer, Manifest, Token};
use fault_registry::{Action, Bytes, End, Login, Rule, Script, What};
use imagepuller::error::Kind::{Data, Denied, Unreachable};

use crate::row::{Row, TOKEN, pulled, refused, script};
use crate::support::{PASSWORD, USER};

pub fn rows() -> Vec<Row> {
    let challenge = |text: &str| {
        let mut rule = Rule::new(What::Any, .., [Action::header("WWW-Authenticate", text)]);
        rule.before_login = true;
        script().rule(rule)
    };
    let login = |login| Script::new().login(login);
    let bearer = || Login::bearer(USER, PASSWORD, TOKEN);
    vec![
        pulled("a password is enough", login(Login::basic(USER, PASSWORD)))
            .asks(Token, 0)
            .asks(Index, 1),
        pulled(
            "500 for the token once",
            script().once(Token, [Action::status(500)]),
        )
        .asks(Token, 2),
        pulled(
            "429 for the token once",
            script().once(Token, [Action::status(429)]),
        )
        .asks(Token, 2),
        pulled(
            "the token's connection is reset once",
            script().once(Token, [Action::cut(3, End::Reset)]),
        )
        .asks(Token, 2),
        refused(
            "503 for the token always",
            script().always(Token, [Action::status(503)]),
            Unreachable,
            &["503"],
        )
        .asks(Token, 3),
        refused(
            "401 for the token",
            script().always(Token, [Action::status(401)]),
            Denied,
            &["token server", "401"],
        )
        .asks(Token, 1),
        refused(
            "404 for the token",
            script().always(Token, [Action::status(404)]),
            Data,
            &["404"],
        )
        .asks(Token, 1),
        refused(
            "the token is no JSON",
            script().always(Token, [Action::Body(Bytes::Text("<html>".to_owned()))]),
            Data,
            &["token"],
        )
        .asks(Token, 1),
        refused(
            "the token is endless",
            script().always(Token, [Action::Body(Bytes::Endless)]),
            Data,
            &["more than"],
        )
        .asks(Token, 1),
        refused(
            "the token holds a line break",
            script().always(
                Token,
                [Action::Body(Bytes::Text(
                    r#"{"token": "a\r\nHost: b"}"#.to_owned(),
                ))],
            ),
            Data,
            &["token"],
        ),
        pulled(
            "a token is good twice",
            login(Login {
                uses: Some(2),
                ..bearer()
            }),
        )
        .asks(Token, 3),
        pulled(
            "a token ends between the layers",
            login(Login {
                uses: Some(4),
                ..bearer()
            }),
        )
        .asks(Token, 2),
        pulled("a token ends in the middle of a layer", {
            let login = login(Login {
                uses: Some(5),
                ..bearer()
            });
            login.once(Layer(0), [Action::cut(1000, End::Reset)])
        })
        .asks(Token, 2)
        .ranges(&[0, 1000]),
        refused(
            "the password is wrong",
            login(Login::basic(USER, "another")),
            Denied,
            &["401"],
        )
        .asks(Index, 0),
        refused(
            "no token server is named",
            challenge("Bearer service=\"x\""),
            Denied,
            &["token server"],
        )
        .asks(Token, 0),
        refused(
            "the token server has no address",
            challenge("Bearer realm=\"not an address\""),
            Denied,
            &["address"],
        ),
        refused(
            "the token server is a file",
            challenge("Bearer realm=\"file:///etc/passwd\""),
            Denied,
            &["no HTTP address"],
        ),
        refused(
            "the token server is plain",
            challenge("Bearer realm=\"{other}/token\""),
            Denied,
            &["plain HTTP"],
        )
        .other(Script::new(), 0..=0)
        .plain(),
        refused(
            "only an unknown scheme is offered",
            challenge("Negotiate"),
            Denied,
            &["negotiate"],
        )
        .asks(Token, 0),
        refused(
            "a challenge without end",
            challenge(&format!("Bearer {}", "a=b,".repeat(20_000))),
            Denied,
            &["token server"],
        ),
        // The token is asked for with the password, and that stays here.
        refused(
            "the token server redirects to another host",
            script().always(Token, [Action::redirect("{other}/token")]),
            Data,
            &["404"],
        )
        .other(Script::new(), 0..=1)
        .asks(Manifest, 0),
    ]
}
