"""Passwords behind their label, in many languages; with spaces in them where quotes or the line end them."""

from __future__ import annotations

import re

from ce_engine.text.redaction.labelled import OPTION, Label, Labelled, cut, is_code, labels, tail
from ce_engine.text.redaction.patterns import DIGITS, Bounds, has_any, password_value, words


_VALUE = "[!-~\u00a1-\u024f]{1,256}"

_PROSE = words(
    "a an and any are as ask at be been before below between but by can cannot change changed character "
    "characters check click confirm contact contain contains could current default details did different do "
    "does don't email empty enter entered error every expired expires fail failed field for forgot forgotten "
    "from had has have help here hint how if in incorrect input into invalid is it its least length letters "
    "line link login long lowercase manager match matches maximum minimum missing months must need needs "
    "never new no none not of off old on one only optional or our page phrase please policy prompt protected "
    "provided recover required reset rules same secret see send sent set should show shown sign still strength "
    "strong symbols that the their then there these they this to too try type unknown update updated upper "
    "uppercase use used user username using valid via was weak were when where which will with without wrong "
    "you your days day hashed encrypted stored rotation rotated oder und nicht ist die der das le la les el los"
)
"""Words of sentences about passwords: whoever makes one of words takes others."""
_OF_FORMS = words(
    "str string text bytes boolean integer number float object array list dict map any char varchar buffer "
    "none null undefined void true false yes not enabled disabled on off active inactive public private "
    "password passwords passphrase passcode passwort kennwort wachtwoord contrasena credential credentials account "
    "settings security policy policies requirements requirement guidelines overview options option details "
    "rules tips notes note example examples generator manager authentication authorization login logout signin "
    "username email user users admins field label title button dialog screen prompt placeholder input output "
    "value variable parameter argument property column format type kind class hash salt plain plaintext "
    "incomplete alias final literal protocol union tuple never mixed "
    "cleartext bcrypt scrypt argon sha base64 secret secrets token tokens key keys vault keychain keyring env "
    "environment config configuration prefix suffix good better best weak strong medium fair poor bad okay "
    "valid invalid correct incorrect wrong right missing empty blank unset unknown unavailable same unchanged "
    "success failure error warning status none nothing something anything everything nobody hidden known later "
    "soon today tomorrow yesterday again already always never maybe perhaps sorry thanks please welcome hello "
    "change create choose enter confirm repeat reset forgot forget recover recovery remember retry update "
    "verify submit cancel delete remove rotate rotation expiry expiration length strength complexity history "
    "visibility toggle access permission denied allowed granted request response self this that these those "
    "mandatory optional obligatory sensitive confidential internal default custom manual automatic generated "
    "random unique simple secure insecure safe unsafe readonly writeonly deprecated legacy temporary "
    "falsch richtig leer geheim vergessen notwendig erforderlich optional unbekannt mot senha clave "
    "description administrator administrators root guest pending basics complete completed encryption managers "
    "protocol kerberos oauth oidc openid saml ldap radius certificate certificates biometric biometrics fingerprint "
    "passkey passkeys faceid touchid webauthn fido yubikey totp hotp pin otp federated sso cookie cookies session "
    "alphanumeric alphabetic numeric numbers digits lowercase uppercase special directory folder file files path "
    "watts megawatt megawatts kilowatt kilowatts hours minutes seconds weeks months monday tuesday wednesday thursday "
    "friday saturday sunday january february march april june july august september october november december "
    "montag dienstag mittwoch donnerstag freitag samstag sonntag lundi mardi mercredi jeudi vendredi samedi dimanche "
    "lunes martes jueves viernes domingo maandag dinsdag woensdag donderdag vrijdag zaterdag zondag "
    "verification validation registration verifying temporarily easily daily weekly monthly "
    # What is done with one, abroad.
    "wijzigen aanmaken herstellen invoeren tonen kiezen opslaan verbergen modifier changer saisir choisir afficher "
    "masquer enregistrer cambiar crear ingresar introducir restablecer mostrar ocultar guardar repetir modificar alterar "
    "redefinir criar inserir digite modifica cambia inserisci reimposta scegli mostra salva ripeti aendern eingeben "
    "anzeigen verbergen speichern festlegen waehlen erstellen wiederholen zmien utworz endre lagre skift gem vis"
)
"""What stands alone behind such a label in forms, schemas, headings, logs and code."""
_OF_FORMS_ABROAD = re.compile(
    r"(?i)(?:falsch|ung|unbek|vergess|notwend|erforder|pflicht|incor|oblig|requ|richies|neces|inv|vac|vuot|olvid|"
    r"oubli|dimentic|esquec|verge|verplicht|vereist|onjuist|ongeldig|wymag|zapom|glem|feil|fel|krav|gerek|yanl|zorunlu)"
)
_LONE_WORD = re.compile(r"[A-Za-z]{5,64}\Z")
_ENDS = re.compile(r"[.!]?[ \t]*(?:[\r\n]|\Z)|[.!][ ]+(?=[A-Z\u4e00-\u9fff])|[。！，；]")
_HUMPS = re.compile(r"[A-Za-z]?[a-z]+(?:[A-Z][a-z]+)+")
_NO_VOWELS = re.compile(r"(?i)[^aeiouy]{5}")
_SAID = re.compile(r"(?:ed|able|ible|ing|[^fio]ly)\Z")
_DONE_WITH = re.compile(
    r"(?i)\b(?:reset|forgot|forgotten|lost|recover|rotate|manage|show|hide)[ _\-](?:your[ _])?\Z"
)
"""What is done with a password: `Reset password: daily`."""
_OF_LISTS = re.compile(r"[ \t]*(?:#{1,6}|[0-9]{1,3}[.)])[ \t]+(?:\*\*)?\Z")
"""What stands before a heading, or a numbered line: `## Password: Basics`."""
_SHORT_LABELS = words("pw pwd")
_LEAST = 13
"""Letters of a word behind a short label, which stands for watts and directories, too."""
_OF_OTHERS = words("parola heslo hasło haslo")
"""Labels that stand for other words, too."""
_KEY_PATH = re.compile(r"(?i)(?:[a-z][a-z0-9]*[._\-])*")
"""What stands before the label in a line of settings: `spring.datasource.password=`."""
_PATH = re.compile(r"[/~.$]|[A-Za-z]:[\\/]")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_TO_LINE_END = re.compile(r"[^\n\r\"'`<>{}()|;,，。；]{1,120}+(?=[\n\r]|\Z)")
_SAID_OF_MINE = re.compile(r"(?i)\b(?:my|our|the|mi|mein|mon|meu|mijn)[ ](?:[a-z\-]{2,12}[ ])?\Z")


def several_words(text: str, least: int) -> bool:
    """Say whether a text of several words can be a password: no word of it is of a sentence about one."""
    parts = text.split(" ")
    if not least <= len(parts) <= 12 or any(len(part) > 24 for part in parts) or "" in parts:
        return False
    if text[-1] in ".:?!" and not has_any(text, DIGITS):
        return False
    return not any(word.lower() in _PROSE for word in _WORD.findall(text))


def _to_line_end(label: Label) -> Bounds | None:
    """Return the rest of the line where it is a password with spaces: `password: correct horse battery staple`."""
    start = label.tail.start("value")
    match = _TO_LINE_END.match(label.text, start)
    if match is None or label.tail["operator"] is None or label.tail["quote"]:
        return None
    rest = match[0].rstrip()
    if any(sign > "\u024f" for sign in rest):
        return None
    lower = rest.replace(" ", "").isalpha() and rest.islower()
    signed = has_any(rest, DIGITS) and has_any(rest, "!@#$%^&*?~+")
    if " " not in rest or not several_words(rest, 4 if lower else 2):
        return None
    marked = label.tail["operator"].strip() in {":", "=", "："}
    return (start, start + len(rest)) if marked and (lower or signed) else None


def _lone_word(label: Label, end: int) -> bool:
    """Say whether a word of letters alone is a password: `password: swordfish`, no `password: required`.

    It ends the line or sentence, and is nothing that forms, schemas, logs or code say there.
    """
    text, start = label.text, label.tail.start("value")
    value, lower = text[start:end], text[start:end].lower()
    operator = (label.tail["operator"] or "").strip()
    if len(value) < _LEAST and text[label.start : label.end].lower() in _SHORT_LABELS:
        return False
    if operator not in {":", "=", "：", "＝"} or not _LONE_WORD.match(value):
        return False
    if not _ENDS.match(text, end) or lower in _PROSE or lower in _OF_FORMS or "pass" in lower:
        return False
    is_name = _HUMPS.fullmatch(value) and not _NO_VOWELS.search(value)
    first = max(0, label.start - 80)
    line = text[max(text.rfind("\n", first, label.start) + 1, first) : label.start]
    is_said = _SAID.search(lower) or _OF_FORMS_ABROAD.match(value) or _DONE_WITH.search(line)
    if is_name or is_said:
        return False
    if value.istitle() and (
        line.isspace() or line[-1:].isalnum() or line[-1:] == "_" or _OF_LISTS.match(line)
    ):
        return False  # `db_password: Incomplete`: a type
    # In code a name is assigned so, to an attribute, in a block, in a call.
    return operator not in {"=", "＝"} or _KEY_PATH.fullmatch(line) is not None


def _marked_alone(label: Label, start: int, end: int) -> bool:
    """Say whether quotes alone mark a password: `WITH PASSWORD 'x'`, where the first reads as closing the label."""
    text, value = label.text, label.text[start:end]
    quotes = text[start - 1] in "\"'`“‘「『" and not text[end : end + 1].strip("\"'`”’」』")
    if not quotes or end == len(text) or text[end].isspace() or not text[label.end].isspace():
        return False
    return " " not in value and password_value(value, explicit=False)


def password(label: Label) -> Bounds | None:
    """Return the bounds of a password behind its label, or `None` for prose, code and templates."""
    text, word = label.text, label.text[label.start : label.end]
    start, end, quoted = cut(label, is_password=True)
    value, behind = text[start:end], text[end : end + 2]
    operator = label.tail["operator"]
    flag = text[label.end].isspace() and OPTION.search(text, max(0, label.start - 40), label.start)
    led = label.joined or flag or _marked_alone(label, start, end)
    if not led or (operator == ">" and behind != "</"):
        return None  # `<user>:<password>@host` is no XML
    shouted = word.isupper() and operator == "="
    if shouted and word == "PWD":
        if text[label.start - 1 : label.start] not in {"_", ";"} or _PATH.match(value):
            return None  # the shell's working directory; `MYSQL_PWD=` and `;PWD=` are passwords
        shouted = False
    if longer := _to_line_end(label):
        return longer
    if " " in value and not (shouted or word.lower() == "passphrase"):
        # Else a text of a user interface: "Enter your password".
        return (start, end) if quoted and several_words(value, 2) else None
    if not quoted and is_code(label, value, behind):
        return None
    explicit = quoted or shouted or (label.chinese and operator is not None)
    is_one = password_value(value, explicit=explicit) or _lone_word(label, end)
    return (start, end) if is_one else None


_AGAIN = (
    r"(?:[ _\-]?(?:confirmation|confirm|repeat|again|retype)(?![a-z])|确认|[0-9]{1,2}(?![0-9a-z]))?"
    # The label once more, in another language or nearer: `密码（初始）：`.
    r"(?:[ ]?（[^（）\n]{1,12}）|(?<=[\u4e00-\u9fff])[ ]?\([^()\n]{1,12}\)|[ ]?\([\u4e00-\u9fff]{1,8}\))?"
)
_FOREIGN_OPERATOR = (
    r"(?:[ ](?:for|für|de|del|da|do|pour|van|para|от|для)[ ][\w.'\-][\w.'\- ]{0,28}?(?=[ ](?:is|ist|es|est|é|è)[ ]|:))?"
    r"[\"'`”’」』】]?\*{0,2}"
    r"(?P<operator>[ \t]?(?:[:：=＝](?![=:])|=>)"
    r"|[ \t]{1,2}(?:ist|lautet|es|está|est|é|è|to|jest|är|er|on|olarak|adalah|là|—|–|-)[ ][ ]?:?|[ ]?(?:は|が|은|는|이|가)[ ]?)"
    r"[ \t]{0,8}\*{0,2}(?P<quote>[\"'`“‘「『«]?)"
)
_FOREIGN = labels(
    "passwort|kennwort|contraseña|contrasena|mot de passe|mdp|senha|palavra-passe|parola d'ordine|parola|"
    "wachtwoord|hasło|haslo|lösenord|passord|adgangskode|kodeord|salasana|şifre|heslo|jelszó|lozinka|geslo|"
    "parool|slaptažodis|kata sandi|mật khẩu|пароль|κωδικός|パスワード|暗証番号|비밀번호|암호|패스워드|"
    "كلمة المرور|كلمة السر|पासवर्ड|รหัสผ่าน|סיסמה|clave de acceso|kata laluan"
)
_FOREIGN_PROSE = re.compile(
    r"(?i:falsch|vergessen|incorrect|incorrecta|oublié|obligatoire|requis|inválida|esqueci|erforderlich|"
    r"неверн|забыл|неправильн|sbagliata|vergeten|wrong)"
)


def _foreign(label: Label) -> Bounds | None:
    start, end, quoted = cut(label, is_password=True)
    value, behind = label.text[start:end], label.text[end : end + 2]
    if longer := _to_line_end(label):
        return longer
    if _FOREIGN_PROSE.match(value) or (not quoted and is_code(label, value, behind)):
        return None
    if " " in value:
        return (start, end) if quoted and several_words(value, 2) else None
    asian = label.text[label.start] > "\u0e00"
    is_lone = label.text[label.start : label.end].lower() not in _OF_OTHERS and _lone_word(
        label, end
    )
    is_one = is_lone or password_value(value, explicit=quoted or asian)
    return (start, end) if is_one else None


_CHANGE = re.compile(
    r"(?i)(?<![a-z])(?:changed?|set|reset|updated?)[ ](?:my|the|our|your|its|his|her|their)?[ ]?(?:[a-z\-]{2,12}[ ])?\Z"
)


def _changed(label: Label) -> Bounds | None:
    """`I changed my password to ...`."""
    text, (start, end, _) = label.text, cut(label, is_password=True)
    if _CHANGE.search(text, max(0, label.start - 32), label.start) is None:
        return None
    value = text[start:end]
    return (start, end) if " " not in value and password_value(value, explicit=False) else None


_PHRASE_WORDS = re.compile(r"[a-z]{3,8}(?:[ ,\n]{1,3}[a-z]{3,8}){11,23}(?![a-z])")


def _seed_phrase(label: Label) -> Bounds | None:
    start = label.tail.start("value")
    match = _PHRASE_WORDS.match(label.text, start)
    if match is None or len(match[0].split()) not in {12, 15, 18, 21, 24}:
        return None
    return match.span()


PASSWORDS = (
    Labelled(
        "password",
        "PASSWORD",
        labels("password|passwd|pwd|pw|passphrase|passcode|密码|口令|密碼"),
        tail(_AGAIN, _VALUE),
        password,
    ),
    Labelled(
        "password",
        "PASSWORD",
        _FOREIGN,
        re.compile(rf"(?i:{_FOREIGN_OPERATOR})(?P<value>{_VALUE})"),
        _foreign,
    ),
    Labelled(
        "password",
        "PASSWORD",
        labels("password|passwd|passphrase|passcode"),
        re.compile(rf"[ ]to[ ](?P<operator>)(?P<quote>[\"'`“‘]?)(?P<value>{_VALUE})"),
        _changed,
    ),
    Labelled(
        "seed_phrase",
        "SECRET",
        labels("seed phrase|recovery phrase|seed words|mnemonic|助记词|助記詞"),
        tail("(?: phrase)?", "[a-z]{3,8}(?=[ ,\n])"),
        _seed_phrase,
    ),
)
