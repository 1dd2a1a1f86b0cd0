"""What patterns find beside the first kinds: devices, wallets, codes, birth dates, numbers of countries."""

from __future__ import annotations

import pytest

from ce_engine.text.redaction.placeholders import Numbering
from ce_engine.text.redaction.redact import PatternRedactor


SECRET = b"0123456789abcdef0123456789abcdef"
REDACTOR = PatternRedactor()

# Values of no person: reserved for examples, or made up with valid check digits.
FOUND = [
    ("PASSWORD", "correct horse battery staple", "password: {}"),
    ("PASSWORD", "correct horse battery staple", 'my password is "{}"'),
    ("PASSWORD", "Blue Horse 77!", "Password: {}\nuser: anna"),
    ("PASSWORD", "Geheim123!", "Passwort: {}"),
    ("PASSWORD", "Geheim123!", "Mein Passwort ist {}"),
    ("PASSWORD", "Secreta2024", "La contraseña es {}."),
    ("PASSWORD", "Secreta2024", "contraseña: {}"),
    ("PASSWORD", "S3cret!x", "Mot de passe : {}"),
    ("PASSWORD", "S3nha!2024", "senha: {}"),
    ("PASSWORD", "Wacht99!", "wachtwoord: {}"),
    ("PASSWORD", "qwerty123", "Пароль: {}"),
    ("PASSWORD", "qwerty123", "пароль от wifi: {}"),
    ("PASSWORD", "abc12345", "パスワードは{}です"),
    ("PASSWORD", "abc12345", "パスワード：{}"),
    ("PASSWORD", "abc12345", "비밀번호: {}"),
    ("PASSWORD", "abc12345", "비밀번호는 {}입니다"),
    ("PASSWORD", "abc12345", "كلمة المرور: {}"),
    ("PASSWORD", "Müller2024!", "password: {}"),
    ("PASSWORD", "hasło9!A", "hasło: {}"),
    (
        "SECRET",
        "abandon ability able about above absent absorb abstract absurd abuse access accident",
        "seed phrase: {}",
    ),
    ("IP", "2a02:8109:9340:12ac::7", "login from {} at 10:02"),
    ("IP", "2001:0db8:85a3:0000:0000:8a2e:0370:7334", "visited by {}."),
    ("IP", "2001:db8::8a2e:370:7334", "client ip: {}"),
    ("IP", "fe80::1ff:fe23:4567:890a", "my IPv6 address is {}"),
    ("IP", "2606:4700:4700::1111", "[{}]:443 connected"),
    ("IP", "2400:da00:2::29", "用户IP：{}，异常"),
    ("IP", "2a02:8109:9340:12ac:0:0:0:7", "来自{}的请求"),
    ("MAC_ADDRESS", "00:1a:2b:3c:4d:5e", "device {} joined"),
    ("MAC_ADDRESS", "00-1A-2B-3C-4D-5E", "MAC地址：{}"),
    ("WALLET", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "send it to {} please"),
    ("WALLET", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "to {}."),
    ("WALLET", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "钱包地址{}，请查收"),
    ("SECRET", "5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ", "key {} of it"),
    ("ONE_TIME_CODE", "482913", "Your verification code is {}."),
    ("ONE_TIME_CODE", "482913", "{} is your Google verification code"),
    ("ONE_TIME_CODE", "G-482913", "{} is your Google verification code"),
    ("ONE_TIME_CODE", "482913", "OTP: {}"),
    ("ONE_TIME_CODE", "482 913", "Your login code: {}. Do not share it"),
    ("ONE_TIME_CODE", "482913", "Use {} as your one-time password"),
    ("ONE_TIME_CODE", "482913", "Enter {} to verify your account"),
    ("ONE_TIME_CODE", "482913", "【银行】验证码{}，5分钟内有效"),
    ("ONE_TIME_CODE", "482913", "您的验证码是：{}，请勿泄露"),
    ("ONE_TIME_CODE", "482913", "{}（登录验证码），请勿告诉他人"),
    ("ONE_TIME_CODE", "482913", "Su código de verificación es {}"),
    ("ONE_TIME_CODE", "482913", "Votre code de vérification est : {}"),
    ("ONE_TIME_CODE", "482913", "Ihr Bestätigungscode lautet {}."),
    ("ONE_TIME_CODE", "482913", "Код подтверждения: {}"),
    ("ONE_TIME_CODE", "482913", "認証コード：{}"),
    ("ONE_TIME_CODE", "482913", "認証コードは{}です"),
    ("ONE_TIME_CODE", "482913", "인증번호는 {}입니다"),
    ("ONE_TIME_CODE", "482913", "인증번호 [{}]를 입력하세요"),
    ("ONE_TIME_CODE", "7391", "my PIN is {}"),
    ("ONE_TIME_CODE", "737", "CVV {}"),
    ("ONE_TIME_CODE", "482913", '{{"otp": "{}"}}'),
    ("ONE_TIME_CODE", "482913", '{{"verification_code": "{}"}}'),
    ("ONE_TIME_CODE", "A7F29K", "your confirmation code: {}"),
    ("BIRTH_DATE", "1987-03-12", "date of birth: {}"),
    ("BIRTH_DATE", "12/03/1987", "DOB {}"),
    ("BIRTH_DATE", "12 March 1987", "I was born on {} in Rome"),
    ("BIRTH_DATE", "March 12, 1987", "born {}"),
    ("BIRTH_DATE", "March 12th, 1987", "my birthday is {}"),
    ("BIRTH_DATE", "1987年3月12日", "出生日期：{}"),
    ("BIRTH_DATE", "1987年3月12日", "我的生日是{}"),
    ("BIRTH_DATE", "1987-03-12", "我生于{}，现居北京"),
    ("BIRTH_DATE", "1987年3月12日", "生年月日：{}"),
    ("BIRTH_DATE", "12.03.1987", "Geburtsdatum: {}"),
    ("BIRTH_DATE", "12. März 1987", "geboren am {} in Berlin"),
    ("BIRTH_DATE", "12/03/1987", "né le {} à Lyon"),
    ("BIRTH_DATE", "12 mars 1987", "née le {}"),
    ("BIRTH_DATE", "12 de marzo de 1987", "Fecha de nacimiento: {}"),
    ("BIRTH_DATE", "12.03.1987", "Дата рождения: {}"),
    ("BIRTH_DATE", "19870312", '{{"birthDate": "{}"}}'),
    ("BIRTH_DATE", "1987-03-12", '{{"date_of_birth": "{}"}}'),
    ("BIRTH_DATE", "1987-03-12", "DOB (YYYY-MM-DD): {}"),
    ("BIRTH_DATE", "1987년 3월 12일", "생년월일: {}"),
    ("NATIONAL_ID", "12345678Z", "DNI: {}"),
    ("NATIONAL_ID", "X1234567L", "mi NIE es {}"),
    ("NATIONAL_ID", "RSSMRA85T10A562S", "codice fiscale {}"),
    ("NATIONAL_ID", "RSSMRA85T10A562S", "sono {} grazie"),
    ("NATIONAL_ID", "529.982.247-25", "CPF {}"),
    ("NATIONAL_ID", "52998224725", "meu CPF é {}"),
    ("NATIONAL_ID", "529.982.247-25", "cliente {}"),
    ("NATIONAL_ID", "2341 2341 2346", "Aadhaar number: {}"),
    ("NATIONAL_ID", "ABCPE1234F", "PAN: {}"),
    ("NATIONAL_ID", "800101-1234560", "주민등록번호 {}"),
    ("NATIONAL_ID", "A123456789", "身份證字號：{}"),
    ("NATIONAL_ID", "A123456(3)", "HKID {}"),
    ("NATIONAL_ID", "S1234567D", "My NRIC is {}"),
    ("NATIONAL_ID", "AB 12 34 56 C", "NI number {}"),
    ("NATIONAL_ID", "AB123456C", "National Insurance number: {}"),
    ("NATIONAL_ID", "943 476 5919", "NHS number {}"),
    ("NATIONAL_ID", "44051401359", "PESEL: {}"),
    ("NATIONAL_ID", "111222333", "BSN {}"),
    ("NATIONAL_ID", "85.07.30-033.28", "rijksregisternummer {}"),
    ("NATIONAL_ID", "131052-308T", "HETU {}"),
    ("NATIONAL_ID", "811218-9876", "personnummer {}"),
    ("NATIONAL_ID", "756.9217.0769.85", "AHV-Nr. {}"),
    ("NATIONAL_ID", "10000000146", "TC Kimlik No: {}"),
    ("NATIONAL_ID", "12.531.409-0", "RUT: {}"),
    ("NATIONAL_ID", "112-233-445 95", "СНИЛС {}"),
    ("NATIONAL_ID", "36574261809", "Steuer-ID: {}"),
    ("NATIONAL_ID", "65 070649 C 103", "Rentenversicherungsnummer: {}"),
    ("NATIONAL_ID", "123456789018", "マイナンバー：{}"),
    ("NATIONAL_ID", "2 55 08 14 168 025 38", "numéro de sécurité sociale : {}"),
    ("NATIONAL_ID", "255081416802538", "n° sécurité sociale {}"),
    ("NATIONAL_ID", "130 692 544", "social insurance number {}"),
    ("NATIONAL_ID", "E12345678", "护照号码：{}"),
    ("NATIONAL_ID", "C01X00T478", "driver's license number: {}"),
    ("NATIONAL_ID", "123456789", "passport no. {}"),
]

LEFT = [
    "password: please enter again",
    "Password: incorrect login attempt",
    "Password: 8 characters minimum",
    "Passwort vergessen?",
    "Passwort: falsch",
    "the password is stored encrypted using bcrypt",
    "password: see page 12",
    "mot de passe oublié",
    "la contraseña es incorrecta",
    "contraseña: obligatoria",
    "Passwort ist erforderlich",
    '"password": "Must have 8 characters"',
    'placeholder="Passwort eingeben"',
    "Пароль: неверный",
    "senha: ",
    "mnemonic is a way to remember a long list of things that you would else forget about so soon",
    "verification code is required",
    "OTP 2024 conference",
    "验证码长度为4-8位，验证码错误",
    "error code 5001",
    "pin code: 560001",
    "born on 4 July 1776",
    "Order A123456789 closed",
    "std::vector<a::b> dead::beef 12:34:56 at 10:20:30",
    "ssh fingerprint 16:27:ac:a5:76:28:2d:36:63:1b:56:4d:eb:df:a6:48",
    "listening on [2a02:8109::7]:443",
    "2a02:8109::/32",
    "pan 1234567890",
    "fin 12345678",
    "sin(3.14159265358)",
    "sin 130692545",
    "birthday party on 5 May",
    "build 2024-01-02 born 12",
    "the code 12345 was removed",
    "enter 2024 to confirm",
    "access code review 12345",
    "security code path 123456789012345",
    "uid 12345678Z, sku X1234567L",
    "commit 0123456789abcdef0123456789abcdef01234567",
    "We added 20000 to complete the list",
    "took 1500 to complete",
    "PR 48291 to confirm the fix",
    "it took 12345 to verify all",
    "passport renewed in 20231112",
    "passport-local 20231112",
    "The earthquake of 岩手 发生于2008年6月14日",
    "密码： 流水号350203318112878053",
    "Base58: 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb, bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5",
    "0x0000000000000000000000000000000000000000 and 0x" + "ab" * 32,
    "ff:ff:ff:ff:ff:ff, 00:00:00:00:00:00",
    "DNI: 12345678A, CPF 529.982.247-26, codice RSSMRA85T10A562T",
]


@pytest.mark.req("B-04")
@pytest.mark.parametrize(("label", "value", "sentence"), FOUND)
def test_the_value_and_nothing_else_is_taken_out(label: str, value: str, sentence: str) -> None:
    done = REDACTOR.redact(sentence.format(value), Numbering(SECRET))
    assert done.text == sentence.format(f"[{label}_1]")


@pytest.mark.req("B-04")
@pytest.mark.parametrize("text", LEFT)
def test_what_only_looks_like_it_is_left(text: str) -> None:
    assert REDACTOR.redact(text, Numbering(SECRET)).text == text


@pytest.mark.req("B-04")
@pytest.mark.parametrize(
    ("label", "spellings"),
    [
        ("MAC_ADDRESS", ["00:1a:2b:3c:4d:5e", "00-1A-2B-3C-4D-5E"]),
        ("NATIONAL_ID", ["529.982.247-25", "CPF 52998224725"]),
    ],
)
def test_spellings_of_one_value_are_one_placeholder(label: str, spellings: list[str]) -> None:
    numbering = Numbering(SECRET)
    for text in spellings:
        assert f"[{label}_1]" in REDACTOR.redact(text, numbering).text


@pytest.mark.req("B-04")
def test_it_is_found_wherever_it_stands_in_a_text_of_digits() -> None:
    for before in range(3900, 4400, 7):
        text = ("7) " * 2000)[:before] + " RSSMRA85T10A562S " + "8 x" * 200
        assert "RSSMRA85T10A562S" not in REDACTOR.redact(text, Numbering(SECRET)).text
