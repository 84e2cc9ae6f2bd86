"""Replaces what may be a secret by a digest: equal values get equal digests, so plans stay comparable.

The digest is keyed with random bytes that only the recording process knows: it cannot be guessed from a
list of passwords. A value of three characters or less, or a boolean, is no secret and stays: flags decide
plans. Pure.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from manta.api.documents import limits
from manta.api.documents.reader import read_yaml
from manta.api.ray import names

MARK: Final = "redacted."
"""Beginning of every digest. It needs no quotes in a shell, in YAML or in JSON."""
TOKEN: Final = re.compile(r"redacted\.[0-9a-f]{16}")
SHORT: Final = 3
_VARIABLE: Final = re.compile(r"\$(?:[^\W\d]\w*|\{[^\W\d]\w*\})")
_FLAGS: Final = frozenset(("true", "false", "none", "null"))

_SECRET_ENV: Final = frozenset(
    (
        names.ENV_REDIS_PASSWORD,
        names.ENV_REDIS_USERNAME,
        names.ENV_AUTH_TOKEN,
        names.ENV_AZURE_CONNECTION_STRING,
    )
)
KEPT_ENV: Final = (
    frozenset(value for name, value in vars(names).items() if name.startswith("ENV_")) - _SECRET_ENV
)
"""Variables that Manta itself sets or reads: their values decide plans, and no user puts a secret there."""

_WORD: Final = (
    r"pass(?:word|wd|phrase)|secret|token|credential|api[-_]?key|(?:access|account)[-_]?key|private[-_]?key"
    r"|connection[-_]?string|authorization|requirepass|[-_]pwd|amz-signature|shared[-_]?access[-_]?signature"
)
_SECRET_KEY: Final = re.compile(_WORD, re.IGNORECASE)
_NAMES_A_SECRET: Final = re.compile(
    r"(name|names|ref|path|mode|policy|type|version|file|mount|seconds|namespace)$", re.IGNORECASE
)
"""`secretName` and `tokenPath` name a secret; they are none."""
LAST_APPLIED: Final = "last-applied-configuration"

_BEGIN: Final = "-----BEGIN [A-Z ]*PRIVATE KEY-----"
_KEY_END: Final = "-----END [A-Z ]*PRIVATE KEY-----"
_PRIVATE_KEY: Final = re.compile(
    rf"(?P<pem>{_BEGIN}(?:.{{0,16384}}?{_KEY_END}|(?:\s+[\w+/=]{{16,}}(?=\s|\Z))*))", re.DOTALL
)
"""In a log: without an end only the lines that look like a key's."""
_END: Final = r"\s\"',;&}\])\\"
"""What ends a value without quotes."""
_EXPANDED: Final = rf"\$(?:[({{]|[^\W\d]\w*+(?![^{_END}/.:]))"
"""`$(TOKEN)`, `$TOKEN`, `$HOME/token`; but not `$argon2id$v=19`."""
_GAP: Final = r"(?:[ \t]{2,16}|\s?)"
_NAMED: Final = (
    rf"(?:{_WORD})[\w-]{{0,64}}\\?[\"']?{_GAP}[=:]{_GAP}"
    rf"|(?<![\w-])--[\w-]{{0,64}}(?:{_WORD})\s+|requirepass\s+|[?&;]sig="
)
"""What stands before a secret: `redis-password: `, `--token `, `&sig=` in a URL of Azure."""
_PATTERNS: Final = re.compile(
    rf"(?P<pem>{_BEGIN}.*?(?:{_KEY_END}|\Z))"
    r"|(?P<jwt>(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)"
    r"|(?P<key>\b(?:AKIA|ASIA)[0-9A-Z]{12,}|\bgh[pousr]_\w{16,}|\bgithub_pat_\w{16,}|\bglpat-[\w-]{16,}"
    r"|\bhf_\w{16,}|\bsk-[\w-]{16,}|\bxox[abprs]-[\w-]{10,}|\bAIza[\w-]{30,}|\bnpm_\w{30,})"
    r"|(?P<scheme>\b(?:bearer|basic|authorization\s?[=:]\s?token)\s+)(?P<bearer>[\w.~+/=-]{8,})"
    r"|(?P<url>://[^/\s:@\"']*:)(?P<userinfo>[^/\s\"']+)(?=@)"
    rf"|(?:{_NAMED})(?P<quote>\\?[\"'])(?!(?:bearer|basic)\s)(?P<quoted>[^\n\\]{{4,}}?)(?=(?P=quote))"
    rf"|(?P<name>(?:{_NAMED})\\?[\"']?(?:(?:bearer|basic)\s+)?)"
    rf"(?P<value>(?!{_EXPANDED})[^{_END}][^{_END}]*+(?:,[^{_END}=:]++(?![=:]))*)",
    re.IGNORECASE | re.DOTALL,
)
"""Linear in the text: what has no bound begins with something rare, or is never tried again."""
_RUNTIME_ENV: Final = re.compile(
    r'(?P<flag>--(?:runtime-env-json|metadata-json)[ =])"(?P<json>(?:[^"\\]|\\.)*)"', re.DOTALL
)
SUSPICIOUS: Final = (
    *(
        '"env"',
        "env_vars",
        "container_envs",
        "passw",
        "passphrase",
        "secret",
        "token",
        "credential",
        "key",
        "@",
    ),
    *("_pwd", "-pwd", "requirepass", "signature", "sig="),
    *("connection", "authoriz", "bearer", "basic", LAST_APPLIED, "-json", "eyj", "akia", "asia"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hf_", "sk-", "xox", "aiza"),
    "npm_",
)
"""One of these, in lower case, is in every text that `redact` may change. To look for each is thirty
times as fast as one pattern of them all."""
_IN_JSON: Final = (*(one.encode() for one in SUSPICIOUS), b'env\\"')
"""The last one: `env` in a text that is JSON itself."""
_MAX_KNOWN: Final = 4096
_LONGEST_KNOWN: Final = 4096


def is_suspicious(text: str) -> bool:
    low = text.lower()
    return any(one in low for one in SUSPICIOUS)


_PLAIN_KEYS: Final = frozenset(
    (
        *("name", "namespace", "kind", "apiVersion", "metadata", "spec", "status", "labels", "uid"),
        *("containers", "template", "image", "resources", "limits", "requests", "cpu", "memory"),
        *("ports", "containerPort", "protocol", "command", "args", "volumeMounts", "mountPath"),
        *("annotations", "ownerReferences", "conditions", "message", "reason", "type", "volumes"),
    )
)
"""Keys of most fields: none of them says that its value is a secret."""


@functools.lru_cache(maxsize=4096)
def _names_a_value(key: str) -> bool:
    """Whether the field of this name has a secret as its value."""
    return bool(_SECRET_KEY.search(key)) and not _NAMES_A_SECRET.search(key)


class Redactor:
    """`salt`: random bytes that are never written."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._known: dict[str, str] = {}
        """Texts that were looked at: the Pods of all clusters have mostly the same."""

    def encode(self, value: Any) -> tuple[bytes, bool]:
        """The value as JSON without secrets, and whether something was removed."""
        raw = msgspec.json.encode(value, enc_hook=_plain)
        return self.clean(raw)

    def clean(self, raw: bytes) -> tuple[bytes, bool]:
        """As `encode`, for a value that is JSON already."""
        if b'"env"' not in raw:  # otherwise it is certain that each text must be looked at
            low = raw.lower()
            for word in _IN_JSON:
                if word in low:
                    break
            else:
                return raw, False
        clean = msgspec.json.encode(self.redact(msgspec.json.decode(raw)))
        return clean, clean != raw

    def redact(self, value: Any) -> Any:
        """A JSON value without secrets."""
        kind = type(value)
        if kind is str:
            return self.text(value) if len(value) > SHORT else value
        if kind is dict:
            return self._object(value)
        if kind is list:
            return self._list(value)
        return value

    def _list(self, values: list[Any]) -> list[Any]:
        found = [self.redact(one) for one in values]
        for at, one in enumerate(values[:-1]):  # `--token VALUE` in a command
            is_flag = isinstance(one, str) and one.startswith("-") and "=" not in one
            if is_flag and isinstance(values[at + 1], str) and _names_a_value(one):
                found[at + 1] = self.digest(values[at + 1])
        return found

    def digest(self, value: Any) -> Any:
        """The digest of a value; a flag, a short text and a digest stay."""
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        if len(text) <= SHORT or text.lower() in _FLAGS or TOKEN.fullmatch(text):
            return value
        if text.startswith("$(") or _VARIABLE.fullmatch(text):
            return value
        return self._token(text)

    def _token(self, text: str) -> str:
        body = text.encode("utf-8", "surrogatepass")
        return MARK + hashlib.blake2b(body, key=self._salt, digest_size=8).hexdigest()

    # ── objects ──────────────────────────────────────────────────────────────────────────

    def _object(self, value: Mapping[str, Any]) -> dict[str, Any]:
        is_secret = value.get("kind") == "Secret"
        return {
            key: self.redact(one)
            if key in _PLAIN_KEYS
            else self._field(key, one, is_secret=is_secret)
            for key, one in value.items()
        }

    def _field(self, key: str, value: Any, *, is_secret: bool) -> Any:
        if is_secret and key in ("data", "stringData") and isinstance(value, dict):
            return {name: self._token(str(one)) for name, one in value.items()}
        if key in ("env", "default_container_envs") and isinstance(value, list):
            return [self._variable(one) for one in value]
        if key == "env_vars" and isinstance(value, dict):
            return {name: self._env(name, one) for name, one in value.items()}
        if key.endswith(LAST_APPLIED):
            return self.digest(value)
        if _names_a_value(key):
            return self._under_secret_key(value)
        return self.redact(value)

    def _under_secret_key(self, value: Any) -> Any:
        """`redisPassword: {value: ...}` holds a secret; `secret: {secretName: ...}` does not."""
        if isinstance(value, str):
            return self.digest(value)
        if isinstance(value, dict) and isinstance(value.get("value"), str):
            rest = {key: one for key, one in value.items() if key != "value"}
            return {"value": self.digest(value["value"]), **self._object(rest)}
        return self.redact(value)

    def _variable(self, value: Any) -> Any:
        """One entry of `env`."""
        if not isinstance(value, dict) or not isinstance(value.get("value"), str):
            return self.redact(value)
        return {**value, "value": self._env(str(value.get("name", "")), value["value"])}

    def _env(self, name: str, value: Any) -> Any:
        if name in KEPT_ENV:
            return self.redact(value)
        return self.digest(value)

    # ── texts ────────────────────────────────────────────────────────────────────────────

    def text(self, value: str) -> str:
        """A text without what looks like a credential; YAML and JSON in it are redacted by field."""
        known = self._known.get(value)
        if known is None:
            known = self._suspicious(value) if is_suspicious(value) else value
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            if len(value) <= _LONGEST_KNOWN:
                self._known[value] = known
        return known

    def log(self, value: str) -> str:
        """Lines without what looks like a credential. Each is looked at by itself: one odd line hides no other."""
        whole = _PRIVATE_KEY.sub(self._match, value)
        return "\n".join(self.text(line) for line in whole.splitlines())

    def _suspicious(self, value: str) -> str:
        if "-json" in value:
            value = _RUNTIME_ENV.sub(self._shell_json, value)
        if "env_vars" in value and not _RUNTIME_ENV.search(value):
            return self._document(value)
        if value[:1] in "{[" and (tree := _json(value)) is not None:
            return _dumped(self.redact(tree), value)
        return _PATTERNS.sub(self._match, value)

    def _document(self, value: str) -> str:
        """A text with a runtime environment. One that cannot be parsed is removed as a whole."""
        try:
            tree = read_yaml(value, limits.FIELD, duplicates=[])
        except limits.DocumentError:
            tree = None
        if not isinstance(tree, dict | list):
            return self._token(value)
        clean = self.redact(tree)
        return value if clean == tree else _dumped(clean, value)

    def _shell_json(self, found: re.Match[str]) -> str:
        """The JSON in a shell's double quotes, as `manifests/submitter.py` writes it."""
        tree = _json(re.sub(r"\\(.)", r"\1", found["json"]))
        if tree is None:
            return f'{found["flag"]}"{self._token(found["json"])}"'
        text = _dumped(self.redact(tree), "")
        escaped = "".join(f"\\{one}" if one in '\\"' else one for one in text)
        return f'{found["flag"]}"{escaped}"'

    def _match(self, found: re.Match[str]) -> str:
        kind = str(found.lastgroup)
        match kind:
            case "bearer" | "userinfo" | "quoted" | "value":
                return found[0][: -len(found[kind])] + str(self.digest(found[kind]))
            case _:
                return self._token(found[0])


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _dumped(value: Any, like: str) -> str:
    """JSON; compact and sorted, as Manta writes it, unless the original has spaces."""
    if ": " in like:
        return json.dumps(value)
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _plain(value: Any) -> Any:
    """What msgspec cannot encode by itself: an exception in an outcome, a path."""
    return str(value)
