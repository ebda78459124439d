# imagepuller against a registry that misbehaves: a part of hack/same's corpus. Rules are those of
# `fault-registry --help`. Where a pull fails, the fault waits until all else was asked for. The
# registry is the newer revision's on both sides.
## before
script() { cat >script; }
rules() { script <<<"{\"rules\": [$1]}"; }
login='{"login": {"username": "robot", "password": "example"}}'
bearer='{"login": {"username": "robot", "password": "example", "token": "t"}}'
account() { printf 'username = "robot"\npassword = "%s"\n' $1 >>document; }
images=/srv/tests/data/images; layout=plain; repository=localhost:5000/team/app; image=
key() { printf '[decryption-keys]\nkeys = ["%s"]\n' $(base64 -w 0 $images/$1) >>document; }
printf '[registries."localhost:5000"]\nplain-http = true\n' >document; chmod 600 document; rules ''
## command pull
/opt/fault-registry --layout $images/$layout --script script --listen 127.0.0.1:5000 >requests &
until [ -s requests ]; do sleep 0.05; done
digest=$(grep -o 'sha256:[0-9a-f]*' $images/$layout/index.json)
imagepuller pull --config document --output out ${image:-$repository@$digest} 2>log; code=$?
# Layers are unpacked beside each other.
grep -v 'layer unpacked' log >&2; grep 'layer unpacked' log | sort -k 2 >&2; rm log
sleep 0.2; kill $!; exit $code

## way none
## way manifest-flipped
rules '{"what": "manifest", "do": [{"body": "flipped"}]}'
## way manifest-truncated
rules '{"what": "manifest", "do": [{"body": {"truncated": 50}}]}'
## way manifest-endless
rules '{"what": "manifest", "do": [{"body": "endless"}]}'
## way manifest-not-json
rules '{"what": "manifest", "do": [{"body": {"text": "<html>"}}]}'
## way manifest-html
rules '{"what": "manifest", "do": [{"header": {"name": "Content-Type", "value": "text/html"}}]}'
## way manifest-schema1
rules '{"what": "manifest", "do": ["schema1"]}'
## way manifest-404
rules '{"what": "manifest",
    "do": [{"status": {"code": 404, "headers": [],
    "body": "{\"errors\":[{\"code\":\"MANIFEST_UNKNOWN\",\"message\":\"no such manifest\"}]}"}}]}'
## way manifest-403
rules '{"what": "manifest",
    "do": [{"status": {"code": 403, "headers": [],
    "body": "{\"errors\":[{\"code\":\"DENIED\",\"message\":\"the project is locked\"}]}"}}]}'
## way manifest-401-without-challenge
rules '{"what": "manifest", "do": [{"status": {"code": 401, "headers": [], "body": ""}}]}'
## way manifest-503-once
rules '{"what": "manifest", "last": 1,
    "do": [{"status": {"code": 503, "headers": [["Retry-After", "1"]], "body": ""}}]}'
## way manifest-500
rules '{"what": "manifest",
    "do": [{"status": {"code": 500, "headers": [], "body": "out of order"}}]}'
## way manifest-redirect-once
rules '{"what": "manifest", "last": 1, "do": [{"redirect": "{base}/hops/3{path}"}]}'
## way manifest-redirects-endless
rules '{"what": "manifest", "do": [{"redirect": "{base}/hops/30{path}"}]}'
## way config-flipped
rules '{"what": "config", "do": [{"wait": 1500}, {"body": "flipped"}]}'
## way config-empty
rules '{"what": "config", "do": [{"wait": 1500}, {"body": {"truncated": 0}}]}'
## way layer-flipped
rules '{"what": {"layer": 0}, "do": [{"wait": 1500}, {"body": "flipped"}]}'
## way layer-truncated
rules '{"what": {"layer": 0}, "do": [{"wait": 1500}, {"body": {"truncated": 100}}]}'
## way layer-longer
rules '{"what": {"layer": 0}, "do": [{"wait": 1500}, {"body": {"longer": 1}}]}'
## way layer-404
rules '{"what": {"layer": 1},
    "do": [{"wait": 1500}, {"status": {"code": 404, "headers": [], "body": ""}}]}'
## way layer-cut-once
rules '{"what": {"layer": 0}, "last": 1, "do": [{"cut": {"at": {"body": 100}, "how": "reset"}}]}'
## way layer-closed-once
rules '{"what": {"layer": 0}, "last": 1, "do": [{"cut": {"at": {"body": 100}, "how": "close"}}]}'
## way layer-range-ignored
rules '{"what": {"layer": 0}, "last": 1, "do": [{"cut": {"at": {"body": 100}, "how": "close"}}]},
    {"what": {"layer": 0}, "do": [{"range": "ignored"}]}'
## way layer-range-lies
rules '{"what": {"layer": 0}, "last": 1, "do": [{"cut": {"at": {"body": 100}, "how": "close"}}]},
    {"what": {"layer": 0}, "do": [{"range": "other-start"}]}'
## way layer-without-length
rules '{"what": "any-layer", "do": [{"length": "missing"}]}'
## way layer-chunked
rules '{"what": "any-layer", "do": [{"chunked": "tiny"}]}'
## way layer-chunk-bad-size
rules '{"what": {"layer": 0}, "last": 1, "do": [{"chunked": "bad-size"}]}'
## way not-http
rules '{"what": "any", "do": [{"raw": "not HTTP"}]}'
## way connection-reset-once
script <<<'{"connections": [{"first": 1, "last": 1, "how": "reset"}]}'
## way interim-answers
rules '{"what": "manifest", "do": [{"interim": 3}]}'
## way basic
script <<<$login; account example
## way basic-wrong
script <<<$login; account another
## way basic-anonymous
script <<<$login
## way bearer
script <<<$bearer; account example
## way bearer-wrong
script <<<$bearer; account another
## way token-not-json
account example; script <<'END'
{"login": {"username": "robot", "password": "example", "token": "t"},
 "rules": [{"what": "token", "do": [{"body": {"text": "<html>"}}]}]}
END
## way plain-http-not-said
sed -i s/true/false/ document
## way mirror-gone
printf 'mirror = "http://localhost:5999"\nmirror-fallback = true\n' >>document
## way mirror-gone-no-fallback
echo 'mirror = "http://localhost:5999"' >>document
## way unknown-key
echo 'miror = "x"' >>document
## way tag
image=$repository:latest
## way no-such-digest
image=$repository@sha256:$(printf %064d 0)
## way no-such-host
image=none.invalid/team/app@sha256:$(printf %064d 0)
## way buildah-push-no-key
layout=buildah-push
## way buildah-push-rsa-key
layout=buildah-push; key rsa.pem
## way buildah-push-ec-key
layout=buildah-push; key ec.pem
## way skopeo-gzip-no-key
layout=skopeo-gzip
## way skopeo-gzip-rsa-key
layout=skopeo-gzip; key rsa.pem
## way skopeo-gzip-ec-key
layout=skopeo-gzip; key ec.pem
## way skopeo-gzip-ec-no-key
layout=skopeo-gzip-ec
## way skopeo-gzip-ec-rsa-key
layout=skopeo-gzip-ec; key rsa.pem
## way skopeo-gzip-ec-ec-key
layout=skopeo-gzip-ec; key ec.pem
## way skopeo-zstd-no-key
layout=skopeo-zstd
## way skopeo-zstd-rsa-key
layout=skopeo-zstd; key rsa.pem
## way skopeo-zstd-ec-key
layout=skopeo-zstd; key ec.pem
