// How a secret may be written in a text whose escapes are decoded (text-views.ts): as it is, as the names of files
// have it, in hexadecimal digits, and within base64 or base64 of base64 at any alignment (RFC 4648).
import type { Needle } from './needle-index.ts'
import { decoded, folded } from './text-views.ts'

/** Shorter secrets cannot be scrubbed by value: they would be found everywhere. UTF-16 units. */
export const SECRET_CHARS_MIN = 3

/** Longer spellings are indexed by so much of their beginning. */
export const SPELLING_PREFIX_BYTES_MAX = 256

/** Fewer letters say nothing about what was encoded. */
const BASE64_LETTERS_MIN = 4
const BASE64_TWICE_LETTERS_MIN = 8
/** Shorter ones are the hashes and colours of others. */
const HEX_BYTES_MIN = 5
const NAME_CHARS_MIN = 8

/** Bits of the secret's first letter that belong to what stands before it, for each of the three alignments. */
const ALIGNMENTS = [0, 4, 2]

const LETTERS = Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/')
const FOLDED_LETTERS = folded(LETTERS)

/** Every spelling that is looked for; with `isUtf16`, within base64 of its UTF-16 as well. */
export function spellingsOf(given: string, isUtf16 = false): Needle[] {
  const secret = trimmed(given)
  const bytes = Buffer.from(secret)
  const spellings = textsOf(secret).map(cut)
  if (bytes.length >= HEX_BYTES_MIN) {
    for (const digits of ['0123456789abcdef', '0123456789ABCDEF']) {
      spellings.push(lazily(bytes.length * 2, (lettersMax) => hex(bytes, digits, lettersMax)))
    }
  }
  addBase64(bytes, spellings)
  if (isUtf16) for (const wide of wideOf(secret)) addBase64(wide, spellings)
  return spellings
}

/** The spellings of which the beginning or the end is recognised where a text was cut through them. */
export function cuttableSpellingsOf(given: string): Needle[] {
  const secret = trimmed(given)
  const bytes = Buffer.from(secret)
  const spellings = textsOf(secret).map(cut)
  for (const skipBits of ALIGNMENTS) spellings.push(base64(bytes, skipBits))
  // No more than what may be a beginning by chance.
  return spellings.filter(({ prefix }) => prefix.length > BASE64_LETTERS_MIN)
}

/** Backslashes at its ends stay in the text: half of an escaped one would escape what stands beside it. */
function trimmed(secret: string): string {
  const inner = secret.replaceAll(/^\\+|\\+$/g, '')
  return inner.length < SECRET_CHARS_MIN ? secret : inner
}

/** Without any encoding of its bytes. */
function textsOf(secret: string): Uint8Array[] {
  const texts = [secret]
  if (secret.includes(' ')) texts.push(secret.replaceAll(' ', '+'))
  const name = secret.replaceAll(/[^A-Za-z0-9]+/g, '-').replaceAll(/^-|-$/g, '')
  if (name !== secret && name.length >= NAME_CHARS_MIN) texts.push(name, name.replaceAll('-', '_'))
  const all = texts.flatMap((text) => {
    const bytes = Buffer.from(text)
    return [bytes, ...decoded(bytes).map((view) => view.bytes)]
  })
  if (!/^[\0-\x7F]*$/.test(secret)) all.push(...wideOf(secret).map(withoutNul))
  return all.filter((one) => one.length >= SECRET_CHARS_MIN).map(folded)
}

/** UTF-16 of either order of bytes. */
function wideOf(secret: string): Buffer[] {
  const little = Buffer.from(secret, 'utf16le')
  return [little, Buffer.from(little).swap16()]
}

function withoutNul(bytes: Buffer): Uint8Array {
  return bytes.filter((byte) => byte !== 0)
}

function addBase64(bytes: Uint8Array, spellings: Needle[]): void {
  for (const skipBits of ALIGNMENTS) {
    const once = base64(bytes, skipBits)
    if (once.prefix.length >= BASE64_LETTERS_MIN) spellings.push(once)
    for (const again of ALIGNMENTS) {
      const length = lettersOf(lettersOf(bytes.length, skipBits), again)
      if (length < BASE64_TWICE_LETTERS_MIN) continue
      const encode = (lettersMax: number) =>
        core(core(bytes, skipBits, lettersMax, LETTERS), again, lettersMax, FOLDED_LETTERS)
      spellings.push(lazily(length, encode))
    }
  }
}

function base64(bytes: Uint8Array, skipBits: number): Needle {
  return lazily(lettersOf(bytes.length, skipBits), (lettersMax) =>
    core(bytes, skipBits, lettersMax, FOLDED_LETTERS),
  )
}

/** How many letters depend on these bytes alone. */
function lettersOf(bytes: number, skipBits: number): number {
  return Math.floor((bytes * 8 - skipBits) / 6)
}

/** The letters of base64 that depend on nothing around these bytes. */
function core(
  bytes: Uint8Array,
  skipBits: number,
  lettersMax: number,
  letters: Uint8Array,
): Uint8Array {
  const out = new Uint8Array(Math.max(0, Math.min(lettersMax, lettersOf(bytes.length, skipBits))))
  let bits = 0
  let held = 0
  for (let from = 0, to = 0; to < out.length; from++) {
    held = (held << 8) | (bytes[from] ?? 0)
    bits += from === 0 ? 8 - skipBits : 8
    while (bits >= 6 && to < out.length) {
      bits -= 6
      out[to++] = letters[(held >> bits) & 63] ?? 0
    }
    held &= 0xff
  }
  return out
}

function hex(bytes: Uint8Array, digits: string, lettersMax: number): Uint8Array {
  const out = new Uint8Array(Math.min(lettersMax, bytes.length * 2))
  for (let at = 0; at < out.length; at++) {
    const byte = bytes[at >> 1] ?? 0
    out[at] = digits.charCodeAt((at & 1) === 0 ? byte >> 4 : byte & 15)
  }
  return out
}

function cut(bytes: Uint8Array): Needle {
  const isWhole = bytes.length <= SPELLING_PREFIX_BYTES_MAX
  return {
    prefix: bytes.subarray(0, SPELLING_PREFIX_BYTES_MAX),
    whole: isWhole ? undefined : () => bytes,
  }
}

function lazily(length: number, encode: (lettersMax: number) => Uint8Array): Needle {
  const isWhole = length <= SPELLING_PREFIX_BYTES_MAX
  let whole: Uint8Array | undefined
  return {
    prefix: encode(SPELLING_PREFIX_BYTES_MAX),
    whole: isWhole ? undefined : () => (whole ??= encode(length)),
  }
}
