// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A platform for tests: the signs and the report interface of a confidential VM, served without one.
 *
 * Registers the misc device that the kernel's own driver would register and answers that driver's report ioctl, byte
 * layout included, so that a guest without SNP or TDX hardware can run the code that reads the evidence. Gives the signs by
 * which such a guest's kernel shows what it runs on: the platform device of SNP, the processor flag of TDX.
 *
 *   platform=snp   /dev/sev-guest, SNP_GET_REPORT       (include/uapi/linux/sev-guest.h; AMD 56860, attestation report)
 *   platform=tdx   /dev/tdx_guest, TDX_CMD_GET_REPORT0  (include/uapi/linux/tdx-guest.h; Intel TDX module, TDREPORT)
 *   hostdata=HEX   what the host announced: HOSTDATA (32 bytes) or MRCONFIGID (48 bytes); shorter text is padded with
 *                  zero bytes at the end, no text means all zero
 *   device=0       no report device, as where the driver is not loaded
 *   sign=KIND      snp, tdx or none: the signs, if they shall be others than the platform's
 *   lie=KIND       fail          no report; for snp with codes of VMM and firmware
 *                  data          a report with somebody else's report data
 *                  status, size, old   snp: a firmware status, a report of one byte less, one of version 1
 *                  type          tdx: a report of the type that SGX has
 *
 * The report is not signed and has no MAC: the code under test takes it from the kernel and checks neither.
 * Test only. Never load it in a VM that holds a secret.
 */
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/ioctl.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <asm/cpufeature.h>
#include <asm/processor.h>

#include "fixture.h"

/* ---- SNP ---------------------------------------------------------------------------------------------------------- */

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

static bool device = true;
module_param(device, bool, 0444);
MODULE_PARM_DESC(device, "whether there is a report device");

static char *sign = "";
module_param(sign, charp, 0444);
MODULE_PARM_DESC(sign, "snp, tdx or none; by default the platform's");

static char *lie = "";
module_param(lie, charp, 0444);
MODULE_PARM_DESC(lie, "fail, data, status, size, old or type");

static u8 field[TDX_MRCONFIGID_BYTES];

static bool lies(const char *kind)
{
	return !strcmp(lie, kind);
}

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
	if (lies("data"))
		request.user_data[REPORTDATA_BYTES - 1] ^= 1;
	if (request.vmpl > SNP_VMPL_MAX || memchr_inv(request.reserved, 0, sizeof(request.reserved))) {
		response->status = 0x16; /* INVALID_PARAM */
	} else {
		response->status = lies("status") ? 0x16 : 0;
		response->report_size = SNP_REPORT_BYTES - lies("size");
		snp_report(response->report, request.user_data, field, request.vmpl);
		if (lies("old"))
			response->report[0] = 1;
	}
	if (copy_to_user(u64_to_user_ptr(call.response), response, sizeof(*response)))
		result = -EFAULT;
	kfree(response);

	if (lies("fail"))
		result = -EIO;
	call.exitinfo2 = lies("fail") ? 2ULL << 32 | 0x16 : 0;
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
	if (lies("fail")) {
		result = -EIO;
		goto out;
	}
	if (lies("data"))
		request->reportdata[REPORTDATA_BYTES - 1] ^= 1;
	/* REPORTMACSTRUCT at 0, TEE_TCB_INFO at 256, TDINFO at 512: attributes, XFAM, MRTD, MRCONFIGID. */
	request->tdreport[0] = lies("type") ? 0 : TDX_REPORT_TYPE;
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

static struct miscdevice misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.mode = 0600,
};

/* ---- The signs ---------------------------------------------------------------------------------------------------- */

static struct platform_device *snp_sign;
static bool tdx_sign;

/* Only what /proc/cpuinfo shows: the kernel itself decided at boot what it runs on. */
static void show_tdx_flag(bool on)
{
	int cpu;

	for_each_present_cpu(cpu) {
		unsigned long *flags = (unsigned long *)cpu_data(cpu).x86_capability;

		if (on)
			set_bit(X86_FEATURE_TDX_GUEST, flags);
		else
			clear_bit(X86_FEATURE_TDX_GUEST, flags);
	}
}

static int give_sign(const char *kind)
{
	if (!strcmp(kind, "snp")) {
		snp_sign = platform_device_register_simple("sev-guest", PLATFORM_DEVID_NONE, NULL, 0);
		if (IS_ERR(snp_sign))
			return PTR_ERR(snp_sign);
	} else if (!strcmp(kind, "tdx")) {
		tdx_sign = true;
		show_tdx_flag(true);
	} else if (strcmp(kind, "none")) {
		pr_err("tee_fixture: sign=%s is neither snp nor tdx nor none\n", kind);
		return -EINVAL;
	}
	return 0;
}

static void take_sign(void)
{
	if (snp_sign)
		platform_device_unregister(snp_sign);
	if (tdx_sign)
		show_tdx_flag(false);
}

static int __init tee_fixture_init(void)
{
	size_t limit;
	int result;

	if (!strcmp(platform, "snp")) {
		misc.name = "sev-guest";
		misc.fops = &snp_operations;
		limit = SNP_HOSTDATA_BYTES;
	} else if (!strcmp(platform, "tdx")) {
		misc.name = "tdx_guest";
		misc.fops = &tdx_operations;
		limit = TDX_MRCONFIGID_BYTES;
	} else {
		pr_err("tee_fixture: platform=%s is neither snp nor tdx\n", platform);
		return -EINVAL;
	}
	result = announced(hostdata, field, limit);
	if (result)
		return result;
	result = give_sign(*sign ? sign : platform);
	if (result || !device)
		return result;
	result = misc_register(&misc);
	if (result)
		take_sign();
	return result;
}

static void __exit tee_fixture_exit(void)
{
	if (device)
		misc_deregister(&misc);
	take_sign();
}

module_init(tee_fixture_init);
module_exit(tee_fixture_exit);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Test fixture: the signs and the report ioctl of an SNP or TDX guest, without the hardware");
