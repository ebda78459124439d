// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A TSM provider for tests: the kernel's own configfs report interface (Documentation/ABI/testing/configfs-tsm), with reports
 * made here in the place of a confidential VM's firmware.
 *
 *   provider=NAME   what the entry's `provider` says: sev_guest (default), tdx_guest, or anything else
 *   hostdata=HEX    HOSTDATA, at most 32 bytes, zero-padded at the end
 *   lie=KIND        short, long   a report of one byte less or more
 *                   old           a report of version 1
 *                   data          a report with somebody else's report data
 *                   generation    a write by somebody else while the report is made
 *                   fail          no report
 *
 * Whatever the provider calls itself, the report has SNP's layout. Test only.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/tsm.h>

#include "fixture.h"

static char *provider = "sev_guest";
module_param(provider, charp, 0444);
MODULE_PARM_DESC(provider, "name of the provider");

static char *hostdata = "";
module_param(hostdata, charp, 0444);
MODULE_PARM_DESC(hostdata, "hexadecimal HOSTDATA, zero-padded");

static char *lie = "";
module_param(lie, charp, 0444);
MODULE_PARM_DESC(lie, "short, long, old, data, generation or fail");

static u8 field[SNP_HOSTDATA_BYTES];

static bool lies(const char *kind)
{
	return !strcmp(lie, kind);
}

static int report_new(struct tsm_report *report, void *unused)
{
	u8 user_data[REPORTDATA_BYTES] = {};
	u8 *blob;

	if (lies("fail"))
		return -EIO;
	blob = kvzalloc(SNP_REPORT_BYTES + 1, GFP_KERNEL);
	if (!blob)
		return -ENOMEM;
	memcpy(user_data, report->desc.inblob, report->desc.inblob_len);
	if (lies("data"))
		user_data[REPORTDATA_BYTES - 1] ^= 1;
	snp_report(blob, user_data, field, report->desc.privlevel);
	if (lies("old"))
		blob[0] = 1;
	/* The counter of writes stands behind the report in the structure that only the TSM core declares. */
	if (lies("generation"))
		++*(unsigned long *)(report + 1);
	report->outblob = blob;
	report->outblob_len = SNP_REPORT_BYTES - lies("short") + lies("long");
	return 0;
}

static bool attribute_visible(int n)
{
	return n == TSM_REPORT_GENERATION || n == TSM_REPORT_PROVIDER || n == TSM_REPORT_PRIVLEVEL ||
	       n == TSM_REPORT_PRIVLEVEL_FLOOR;
}

static bool binary_visible(int n)
{
	return n == TSM_REPORT_INBLOB || n == TSM_REPORT_OUTBLOB || n == TSM_REPORT_AUXBLOB;
}

static struct tsm_ops operations = {
	.report_new = report_new,
	.report_attr_visible = attribute_visible,
	.report_bin_attr_visible = binary_visible,
};

static int __init tsm_fixture_init(void)
{
	int result = announced(hostdata, field, sizeof(field));

	if (result)
		return result;
	operations.name = provider;
	return tsm_register(&operations, NULL);
}

static void __exit tsm_fixture_exit(void)
{
	tsm_unregister(&operations);
}

module_init(tsm_fixture_init);
module_exit(tsm_fixture_exit);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Test fixture: a TSM provider of SNP reports, without the hardware");
