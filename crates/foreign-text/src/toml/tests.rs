use super::*;

#[test]
fn owned_strings_are_wiped_at_any_depth() {
    let text = "a = \"\\u0041\"\nb = [[\"\\u0042\"], {c = \"\\u0043\"}]";
    let mut root = DeTable::parse(text).unwrap().into_inner();
    assert!(format!("{root:?}").contains("\"C\""));
    wipe(&mut root);
    let wiped = format!("{root:?}");
    for secret in ["\"A\"", "\"B\"", "\"C\""] {
        assert!(!wiped.contains(secret), "{wiped}");
    }
}

#[test]
fn debug_shows_no_value() {
    let tree = Tree::parse(b"[a]\nb = 'hunter2'").unwrap();
    let table = tree.table().take("a").unwrap().table().unwrap();
    let field = table.rest().next().unwrap();
    let shown = format!("{tree:?} {:?} {field:?}", tree.table());
    assert_eq!(shown, "Tree Table() Field(a.b)");
}
