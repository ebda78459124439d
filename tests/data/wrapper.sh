# What the wrapper finds when a runtime starts it with a recorded command line: a part of
# hack/same's corpus. A script in QEMU's place says what it was given. Whatever is inherited is the
# null device.
## before
recorded=/srv/qemu-fixtures/arguments
case $vector in go-*) environment=go-environment ;; *) environment=environment ;; esac
annotation() { printf '{"annotations":{"%s":"%s"}}' "$1" "$2" >bundle/config.json; }
imagepuller=io.katacontainers.config.runtime.imagepuller_config
mkdir allowed bundle; echo '{}' >bundle/config.json; echo 'qemu = "/mnt/qemu"' >settings
cat >document <<'END'
[registries."registry.corp"]
username = "puller"
password = "hunter2"
END
cat >qemu <<'END'
#!/bin/bash
printf 'argument %s\n' "$@"
env | sort
for file in /proc/$$/fd/*; do
    case $(readlink $file) in
        *imagepuller*) readlink $file; sha256sum <$file ;;
    esac
done
END
cp document allowed/own.toml; chmod 755 qemu; chmod 600 settings document allowed/own.toml
## command start
while read -r number _; do
    [ "$number" -lt 3 ] || eval "exec $number<>/dev/null"
done < <(grep '^[0-9]' $recorded/$vector.fds)
mapfile -t arguments <$recorded/$vector; mapfile -t environment <$recorded/$environment; cd bundle
exec env -i "${environment[@]}" KATA_CONFIGDEV_CONFIG=/mnt/settings \
    kata-configdev-qemu "${arguments[@]}"

## way memory
echo 'document = "/mnt/document"' >>settings
## way file
echo 'document = "/mnt/document"' >>settings; echo 'transport = "file"' >>settings
## way pattern
echo 'document = "/mnt/allowed/own*.toml"' >>settings
## way annotation
echo 'annotation-allow = ["/mnt/allowed"]' >>settings; annotation $imagepuller /mnt/allowed/own.toml
## way annotation-not-allowed
annotation $imagepuller /mnt/allowed/own.toml
## way annotation-unknown
annotation io.katacontainers.config.runtime.imagepuller_cnofig x
## way namespace
echo 'engine = "containerd"' >>settings; annotation io.kubernetes.cri.sandbox-namespace own
echo 'document = "/mnt/allowed/{namespace}.toml"' >>settings
## way namespace-unknown
echo 'engine = "containerd"' >>settings
echo 'document = "/mnt/allowed/{namespace}.toml"' >>settings
## way no-document
## way no-spec
echo 'document = "/mnt/document"' >>settings; rm bundle/config.json
## way broken-spec
echo 'document = "/mnt/document"' >>settings; echo { >bundle/config.json
## way broken-document
echo 'document = "/mnt/document"' >>settings; echo 'pasword = "x"' >>document
## way missing-document
echo 'document = "/mnt/none"' >>settings
## way unknown-key
echo 'documnet = "/mnt/document"' >>settings
## way off
echo 'enabled = false' >>settings
