//! The token server, and tokens that are no longer good.

use What::{Index, Layer, Manifest, Token};
use fault_registry::{Action, Bytes, End, Login, Rule, Script, What};
use imagepuller::error::Kind::{Data, Denied, Unreachable};

use crate::row::{Row, TOKEN, again, ends, fails, pulled, refused, script};
use crate::stage::four_layers;
use crate::support::{PASSWORD, USER};

pub fn rows() -> Vec<Row> {
    let challenge = |text: &str| {
        let mut rule = Rule::new(What::Any, .., [Action::header("WWW-Authenticate", text)]);
        rule.before_login = true;
        script().rule(rule)
    };
    let login = |login| Script::new().login(login);
    let good_for = |uses| {
        let uses = Some(uses);
        login(Login { uses, ..Login::bearer(USER, PASSWORD, TOKEN) })
    };
    let text = |text: &str| Action::Body(Bytes::Text(text.to_owned()));
    let challenged = |name, text: &str, words| refused(name, challenge(text), Denied, words);
    vec![
        pulled("a password is enough", login(Login::basic(USER, PASSWORD)))
            .asks(Token, 0)
            .asks(Index, 1),
        again("500 for the token once", Token, 500),
        again("429 for the token once", Token, 429),
        again("the token's connection is reset once", Token, Action::cut(3, End::Reset)),
        fails("503 for the token always", Token, 503, Unreachable, &["503"]).asks(Token, 3),
        ends(
            "429 for the token, and in ten minutes",
            Token,
            Action::status_with(429, "Retry-After", "600"),
            Unreachable,
            &["for a token for localhost:", "tried again in 600 s"],
        ),
        ends("401 for the token", Token, 401, Denied, &["token server", "401"]),
        ends("404 for the token", Token, 404, Data, &["404"]),
        ends("the token is no JSON", Token, text("<html>"), Data, &["answers without a token"]),
        ends(
            "the token is empty",
            Token,
            text(r#"{"token": ""}"#),
            Data,
            &["answers without a token"],
        ),
        ends("the token is endless", Token, [Action::Body(Bytes::Endless)], Data, &["more than"]),
        fails(
            "the token holds a line break",
            Token,
            text(r#"{"token": "a\r\nHost: b"}"#),
            Data,
            &["a token that no header can carry"],
        ),
        pulled("a token is good twice", good_for(2)).asks(Token, 3),
        // The layers share a token, and the one that it was fetched for may be told so first.
        pulled(
            "a token is good once, and layers come late",
            (0..4).fold(good_for(1), |script, layer| {
                script.always(Layer(layer), [Action::Wait(500)])
            }),
        )
        .image(four_layers()),
        pulled("a token ends between the layers", good_for(4)).asks(Token, 2),
        pulled("a token ends in the middle of a layer", {
            let login = good_for(5);
            login.once(Layer(0), [Action::cut(1000, End::Reset)])
        })
        .asks(Token, 2)
        .ranges(&[0, 1000]),
        refused("the password is wrong", login(Login::basic(USER, "another")), Denied, &["401"])
            .asks(Index, 0),
        challenged("no token server is named", "Bearer service=\"x\"", &["token server"])
            .asks(Token, 0),
        challenged(
            "the token server has no address",
            "Bearer realm=\"not an address\"",
            &["address"],
        ),
        challenged(
            "the token server is a file",
            "Bearer realm=\"file:///etc/passwd\"",
            &["no HTTP address"],
        ),
        challenged("the token server is plain", "Bearer realm=\"{other}/token\"", &["plain HTTP"])
            .other(Script::new(), 0..=0)
            .plain(),
        challenged("only an unknown scheme is offered", "Negotiate", &["negotiate"]).asks(Token, 0),
        challenged(
            "a challenge without end",
            &format!("Bearer {}", "a=b,".repeat(20_000)),
            &["token server"],
        ),
        challenged("a challenge of a long scheme", &"x".repeat(10_000), &["xxx…"]),
        challenged(
            "a token server of a long name",
            &format!("Bearer realm=\"https://{}/\"", "x".repeat(5_000)),
            &["has a name longer than any host's"],
        ),
        // The token is asked for with the password, and that stays here.
        fails(
            "the token server redirects to another host",
            Token,
            [Action::redirect("{other}/token")],
            Data,
            &["404"],
        )
        .other(Script::new(), 0..=1)
        .asks(Manifest, 0),
    ]
}
