# A guest's image whose parts fit, and one part at a time that is missing: a part of hack/same's
# corpus.
## before
units=usr/lib/systemd/system
put() { mkdir -p $(dirname $1); printf "$2" >$1; chmod 755 $1; }
mkdir -p $units; cp -r /srv/deploy/guest/systemd/. $units
put usr/bin/initdata-processor ''
put usr/bin/imagepuller ''
put usr/bin/kata-agent '\0KATA_AGENT_POLICY_FILE\0/run/guest-services/imagepull.socket\0'
put $units/kata-agent.service '[Service]\n'
put etc/kata-opa/default-policy.rego 'package agent_policy\n'
put lib/modules/6/modules.dep 'kernel/drivers/block/virtio_blk.ko.xz:\n'
put boot/config-6 "$(printf 'CONFIG_%s=y\n' DEVTMPFS TMPFS TMPFS_XATTR UNIX SECCOMP_FILTER \
    VIRTIO_PCI SCSI_VIRTIO BLK_DEV_SD OVERLAY_FS SECURITY_LANDLOCK SEV_GUEST BLK_DEV_LOOP \
    VIRTIO_VSOCKETS)
CONFIG_VIRTIO_BLK=m\nCONFIG_LSM=\"landlock,yama\"\n"
## command no-boot
configdev-smoke --no-boot .

## way whole
## way without-agent
rm usr/bin/kata-agent
## way without-processor
rm usr/bin/initdata-processor
## way without-puller
rm usr/bin/imagepuller
## way without-policy
rm etc/kata-opa/default-policy.rego
## way without-modules
rm lib/modules/6/modules.dep
## way without-kernel
rm boot/config-6
## way without-landlock
sed -i s/landlock,// boot/config-6
## way without-overlay
sed -i /OVERLAY/d boot/config-6
## way without-loop
sed -i /LOOP/d boot/config-6
## way without-processor-unit
rm $units/initdata-processor.service
## way without-puller-unit
rm $units/imagepuller.service
## way without-drop-ins
rm -r $units/kata-agent.service.d
## way unknown-setting
put etc/initdata-processor.toml 'accepted-dsik = "keep"\n'
## way stock-agent
put usr/bin/kata-agent '\0KATA_AGENT_POLICY_FILE\0/run/confidential-containers/cdh.sock\0'
## way agent-that-looks
put usr/bin/kata-agent '\0KATA_AGENT_POLICY_FILE\0Initdata find potential device\0'
