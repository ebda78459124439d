"""Encrypts and signs with jwcrypto: JSON with messages, private keys and what is in them."""

import json
import sys

from jwcrypto import jwe, jwk

PLAIN = b"plain \x00\xff" * 7
CONTENT = ["A128GCM", "A192GCM", "A256GCM", "A128CBC-HS256", "A192CBC-HS384", "A256CBC-HS512"]
WRAP = {
    "RSA": ["RSA-OAEP", "RSA-OAEP-256"],
    "EC": ["ECDH-ES+A128KW", "ECDH-ES+A192KW", "ECDH-ES+A256KW"],
}
ec = [jwk.JWK.generate(kty="EC", crv=curve) for curve in ("P-256", "P-384", "P-521")]
keys = [jwk.JWK.generate(kty="RSA", size=2048), *ec]


def private(key):
    return key.export(private_key=True)


def kind(key):
    return json.loads(key.export_public())["kty"]


def single(key, alg, enc, compact):
    header = {"alg": alg, "enc": enc}
    if kind(key) == "EC":
        header |= {"apu": "QWxpY2U", "apv": "Qm9i"}
    if compact:
        message = jwe.JWE(PLAIN, json.dumps(header), recipient=key)
        return message.serialize(compact=True)
    del header["alg"]
    message = jwe.JWE(PLAIN, json.dumps(header), aad=b"beside", unprotected=json.dumps({"alg": alg, "cty": "x"}))
    message.add_recipient(key)
    return message.serialize()


def several(recipients, enc):
    message = jwe.JWE(PLAIN, json.dumps({"enc": enc}))
    for key, alg in recipients:
        message.add_recipient(key, json.dumps({"alg": alg}))
    return message.serialize()


cases = []
for key in keys:
    for alg in WRAP[kind(key)]:
        for enc in CONTENT:
            for compact in (True, False):
                cases.append({"algorithms": [alg], "keys": [private(key)], "text": single(key, alg, enc, compact)})
for enc in CONTENT:
    recipients = [(key, WRAP[kind(key)][-1]) for key in keys]
    cases.append(
        {
            "algorithms": [alg for _, alg in recipients],
            "keys": [private(key) for key in keys],
            "text": several(recipients, enc),
        }
    )

json.dump({"plain": list(PLAIN), "messages": cases}, sys.stdout)
