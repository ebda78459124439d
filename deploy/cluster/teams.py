"""Teams with documents of their own, on a real API server: a chapter of life.py."""


def chapter(life, require, document):
    """A team comes by a line of values and a secret, another by a key of a secret; then both go."""
    below = f"/run/kata-configdev/{life.namespace}.kata/default"
    paths = {team: f"{below}/namespaces/{team}.toml" for team in ("team-a", "team-b")}

    def found(team):
        return life.node.files().get(paths[team], b"").decode()

    def generation():
        daemon_set = life.objects("daemonsets", "/apis/apps/v1")["kata-installer"]
        return daemon_set["metadata"]["generation"]

    life.upgrade("engine=containerd", "sets.default.namespacesSecret=teams",
                 "sets.default.namespaces.team-a.existingSecret=team-a")
    life.wait("the missing secret of the team is named",
              lambda: f"{life.namespace}/team-a" in life.node.logs["kata-installer"])
    require("node-error" in found("team-a"), "its pods are told so", found("team-a"))
    require(f"{below}/imagepuller.toml" not in life.node.files(), "nobody has the set's own")
    life.put_document(document("team-a"), "team-a")
    life.rollout()
    require(found("team-a") == document("team-a"), "the document of the team", found("team-a"))

    before = generation()
    file = life.folder / "team-b.toml"
    file.write_text(document("team-b"))
    life.kubectl("create", "secret", "generic", "teams", f"--from-file={file}")
    life.wait("another team comes", lambda: found("team-b") == document("team-b"))
    require(generation() == before, "and nothing restarts")

    life.upgrade("engine=", "sets.default.namespacesSecret=", "sets.default.namespaces=null")
    life.rollout()
    left = [path for path in life.node.files() if path.startswith(f"{below}/namespaces")]
    require(not left, "both are gone", left)
    require(f"{below}/imagepuller.toml" in life.node.files(), "the set's own is back")
