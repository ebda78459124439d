// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A platform for tests: the report interface of a confidential VM, served without one.
 *
 * Registers the misc device that the kernel's own driver would register and answers that driver's report ioctl, byte
 * layout included, so that a guest without SNP or TDX hardware can run the code that reads the evidence.
 *
 *   platform=snp   /dev/sev-guest, SNP_GET_REPORT       (include/uapi/linux/sev-guest.h; AMD 56860, attestation report)
 *   platform=tdx   /dev/tdx_guest, TDX_CMD_GET_REPORT0  (include/uapi/linux/tdx-guest.h; Intel TDX module, TDREPORT)
 *   hostdata=HEX   what the host announced: HOSTDATA (32 bytes) or MRCONFIGID (48 bytes); shorter text is padded with
 *                  zero bytes at the end, no text means all zero
 *
 * The report is not signed and has no MAC: the code under test takes it from the kernel and checks neither.
 * Test only. Never load it in a VM that holds a secret.
 */
#include <linux/fs.h>
#include <linux/ioctl.h>
#include <linux/kernel.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/uaccess.h>
#if __has_include(<linux/hex.h>)
#include <linux/hex.h> /* hex2bin; in linux/kernel.h up to 6.5 */
#endif

#define REPORTDATA_BYTES 64

/* ---- SNP ---------------------------------------------------------------------------------------------------------- */

#define SNP_REPORT_BYTES 1184
#define SNP_HOSTDATA_BYTES 32
#define SNP_VMPL_MAX 3

struct snp_request {
	u8 user_data[REPORTDATA_BYTES];
	u32 vmpl;
	u8 reserved[28];
};

/* The firmware's MSG_REPORT_RSP inside the buffer of 4000 bytes that the ioctl fills. */
struct snp_response {
	u32 status;
	u32 report_size;
	u8 reserved[24];
	u8 report[SNP_REPORT_BYTES];
	u8 unused[4000 - 32 - SNP_REPORT_BYTES];
};

struct snp_guest_request {
	u8 msg_version;
	u64 request;
	u64 response;
	u64 exitinfo2;
};

#define SNP_GET_REPORT _IOWR('S', 0x0, struct snp_guest_request)

/* ---- TDX ---------------------------------------------------------------------------------------------------------- */

#define TDX_REPORT_BYTES 1024
#define TDX_MRCONFIGID_BYTES 48
#define TDX_REPORT_TYPE 0x81

struct tdx_request {
	u8 reportdata[REPORTDATA_BYTES];
	u8 tdreport[TDX_REPORT_BYTES];
};

#define TDX_CMD_GET_REPORT0 _IOWR('T', 1, struct tdx_request)

static_assert(sizeof(struct snp_request) == 96);
static_assert(sizeof(struct snp_response) == 4000);
static_assert(sizeof(struct snp_guest_request) == 32);
static_assert(sizeof(struct tdx_request) == 1088);

/* ---- What the tests set ------------------------------------------------------------------------------------------- */

static char *platform = "snp";
module_param(platform, charp, 0444);
MODULE_PARM_DESC(platform, "snp or tdx");

static char *hostdata = "";
module_param(hostdata, charp, 0444);
MODULE_PARM_DESC(hostdata, "hexadecimal HOSTDATA (snp) or MRCONFIGID (tdx), zero-padded");

static u8 field[TDX_MRCONFIGID_BYTES];

static long snp_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct snp_guest_request __user *user = (void __user *)argument;
	struct snp_guest_request call;
	struct snp_request request;
	struct snp_response *response;
	long result = 0;

	if (command != SNP_GET_REPORT)
		return -ENOTTY;
	if (copy_from_user(&call, user, sizeof(call)))
		return -EFAULT;
	/* As the real driver: a zero version or pointer is the caller's mistake. */
	if (!call.msg_version || !call.request || !call.response)
		return -EINVAL;
	if (copy_from_user(&request, u64_to_user_ptr(call.request), sizeof(request)))
		return -EFAULT;

	response = kzalloc(sizeof(*response), GFP_KERNEL);
	if (!response)
		return -ENOMEM;
	if (request.vmpl > SNP_VMPL_MAX || memchr_inv(request.reserved, 0, sizeof(request.reserved))) {
		response->status = 0x16; /* INVALID_PARAM */
	} else {
		response->report_size = SNP_REPORT_BYTES;
		response->report[0x00] = 2; /* VERSION */
		response->report[0x30] = request.vmpl;
		response->report[0x34] = 1; /* SIGNATURE_ALGO: ECDSA P-384 with SHA-384 */
		memcpy(response->report + 0x50, request.user_data, REPORTDATA_BYTES);
		memcpy(response->report + 0xc0, field, SNP_HOSTDATA_BYTES);
	}
	if (copy_to_user(u64_to_user_ptr(call.response), response, sizeof(*response)))
		result = -EFAULT;
	kfree(response);

	call.exitinfo2 = 0;
	if (copy_to_user(user, &call, sizeof(call)))
		result = -EFAULT;
	return result;
}

static long tdx_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct tdx_request __user *user = (void __user *)argument;
	struct tdx_request *request;
	long result = 0;

	if (command != TDX_CMD_GET_REPORT0)
		return -ENOTTY;
	request = kzalloc(sizeof(*request), GFP_KERNEL);
	if (!request)
		return -ENOMEM;
	if (copy_from_user(request->reportdata, user->reportdata, REPORTDATA_BYTES)) {
		result = -EFAULT;
		goto out;
	}
	/* REPORTMACSTRUCT at 0, TEE_TCB_INFO at 256, TDINFO at 512: attributes, XFAM, MRTD, MRCONFIGID. */
	request->tdreport[0] = TDX_REPORT_TYPE;
	memcpy(request->tdreport + 128, request->reportdata, REPORTDATA_BYTES);
	memcpy(request->tdreport + 576, field, TDX_MRCONFIGID_BYTES);
	if (copy_to_user(user->tdreport, request->tdreport, TDX_REPORT_BYTES))
		result = -EFAULT;
out:
	kfree(request);
	return result;
}

static const struct file_operations snp_operations = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = snp_ioctl,
};

static const struct file_operations tdx_operations = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = tdx_ioctl,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.mode = 0600,
};

static int __init tee_fixture_init(void)
{
	size_t limit, digits = strlen(hostdata);

	if (!strcmp(platform, "snp")) {
		device.name = "sev-guest";
		device.fops = &snp_operations;
		limit = SNP_HOSTDATA_BYTES;
	} else if (!strcmp(platform, "tdx")) {
		device.name = "tdx_guest";
		device.fops = &tdx_operations;
		limit = TDX_MRCONFIGID_BYTES;
	} else {
		pr_err("tee_fixture: platform=%s is neither snp nor tdx\n", platform);
		return -EINVAL;
	}
	if (digits % 2 || digits / 2 > limit || hex2bin(field, hostdata, digits / 2)) {
		pr_err("tee_fixture: hostdata= wants at most %zu bytes in hexadecimal\n", limit);
		return -EINVAL;
	}
	return misc_register(&device);
}

static void __exit tee_fixture_exit(void)
{
	misc_deregister(&device);
}

module_init(tee_fixture_init);
module_exit(tee_fixture_exit);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Test fixture: the report ioctl of an SNP or TDX guest, without the hardware");
