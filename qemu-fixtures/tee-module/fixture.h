/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The value that the host announced, and an SNP report that carries it. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/printk.h>
#include <linux/string.h>
#include <linux/types.h>
#if __has_include(<linux/hex.h>)
#include <linux/hex.h> /* hex2bin; in linux/kernel.h up to 6.5 */
#endif

#define REPORTDATA_BYTES 64
#define SNP_REPORT_BYTES 1184
#define SNP_HOSTDATA_BYTES 32

/* Fills `field` from hexadecimal text; the rest of it stays as it is. */
static inline int announced(const char *text, u8 *field, size_t limit)
{
	size_t digits = strlen(text);

	if (digits % 2 || digits / 2 > limit || hex2bin(field, text, digits / 2)) {
		pr_err(KBUILD_MODNAME ": hostdata= wants at most %zu bytes in hexadecimal\n", limit);
		return -EINVAL;
	}
	return 0;
}

/* ATTESTATION_REPORT of AMD 56860, not signed. `report` is all zero before. */
static inline void snp_report(u8 *report, const u8 *user_data, const u8 *host_data, u8 vmpl)
{
	report[0x00] = 2; /* VERSION */
	report[0x30] = vmpl;
	report[0x34] = 1; /* SIGNATURE_ALGO: ECDSA P-384 with SHA-384 */
	memcpy(report + 0x50, user_data, REPORTDATA_BYTES);
	memcpy(report + 0xc0, host_data, SNP_HOSTDATA_BYTES);
}

#endif
