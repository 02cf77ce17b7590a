// A regular expression that finds secrets however they were encoded on the way: plain, in URLs, in
// JSON, in HTML, and inside base64 at any of its three alignments.

/** Shorter secrets cannot be scrubbed by value: they would be found everywhere. UTF-16 units. */
export const SECRET_CHARS_MIN = 3

/** Fewer base64 letters than these say nothing about what was encoded. */
const BASE64_CHARS_MIN = 4

/** As what a secret is looked for. */
export interface SecretPatternWishes {
  /** Base64 that was broken into lines, too. */
  inLines?: boolean
  /** These in UTF-16 too, of either order of bytes; bytes stand in the text as characters of Latin-1. */
  utf16?: Iterable<string>
}

/** Finds every spelling of every secret; undefined when there is none to find. */
export function secretPattern(
  secrets: Iterable<string>,
  { inLines = false, utf16 = [] }: SecretPatternWishes = {},
): RegExp | undefined {
  const sources = new Set<string>()
  for (const secret of secrets) {
    if (secret.length < SECRET_CHARS_MIN) continue
    sources.add(textSource(secret))
    for (const source of [hexSource(secret), escapedSource(secret), nameSource(secret)]) {
      if (source !== undefined) sources.add(source)
    }
    for (const encoded of base64Cores(secret)) sources.add(base64Source(encoded, inLines))
  }
  for (const bytes of [...utf16].flatMap(utf16Of)) {
    sources.add(escaped(bytes.toString('latin1')))
    for (const encoded of base64Cores(bytes)) sources.add(base64Source(encoded, inLines))
  }
  if (sources.size === 0) return undefined
  // Where one secret begins with another, the longer one must win, or its rest would be left.
  const longestFirst = [...sources].sort((a, b) => b.length - a.length)
  return new RegExp(longestFirst.join('|'), 'g')
}

// A run of backslashes is one thing: each round of escaping doubles it, and one pattern for each of
// them would try every way to share a long run.
function textSource(text: string): string {
  const parts = text.match(/\\+|[^\\]/gu) ?? []
  return parts.map(characterSource).join('')
}

const SOURCES = new Map<string, string>()

// Letters and digits are written as they are by every encoder; all else has several spellings, and
// encoders do not agree on which characters they leave alone.
function characterSource(character: string): string {
  if (/[A-Za-z0-9]/.test(character)) return character
  if (character.startsWith('\\')) return backslashSource(character.length)
  let source = SOURCES.get(character)
  if (source === undefined) {
    source = `(?:${[...spellings(character)].join('|')})`
    // Few different characters come up; the bound is against a secret made to fill memory.
    if (SOURCES.size < 4096) SOURCES.set(character, source)
  }
  return source
}

function backslashSource(count: number): string {
  return `(?:\\\\{${count},${8 * count}}|(?:%5[cC]|%255[cC]|&#0*92;|&#[xX]0*5[cC];|${ESCAPE}u005[cC]){${count}})`
}

/** All spellings of a character as sources of regular expressions, the longest ones first. */
function spellings(character: string): Set<string> {
  const percent = percentOf(character)
  const found = [
    percent.map((hex) => `%25${anyCase(hex)}`).join(''),
    percent.map((hex) => `%${anyCase(hex)}`).join(''),
    Array.from({ length: character.length }, (_, at) => {
      const unit = character.charCodeAt(at).toString(16).padStart(4, '0')
      return `${ESCAPE}u${anyCase(unit)}`
    }).join(''),
    `&#0*${character.codePointAt(0)};`,
    `&#[xX]0*${anyCase((character.codePointAt(0) ?? 0).toString(16))};`,
    ...(NAMED[character] ?? []),
    escaped(character),
  ]
  return new Set(found)
}

// One backslash escapes, three escape the escape, seven do it once more; without a bound, a long run of
// them would take a time that grows with its square.
const ESCAPE = '\\\\{1,7}'

const NAMED: Readonly<Record<string, readonly string[]>> = {
  ' ': ['\\+', '&nbsp;'],
  '&': ['&amp;'],
  '<': ['&lt;'],
  '>': ['&gt;'],
  '"': ['&quot;', `${ESCAPE}"`],
  "'": ['&apos;', `${ESCAPE}'`],
  '/': [`${ESCAPE}/`],
  '\n': [`${ESCAPE}r${ESCAPE}n`, `${ESCAPE}n`, '\\r\\n', '%0[dD]%0[aA]'],
  '\r': [`${ESCAPE}r`],
  '\t': [`${ESCAPE}t`],
}

function percentOf(character: string): string[] {
  return Array.from(Buffer.from(character), (byte) => byte.toString(16).padStart(2, '0'))
}

function anyCase(hex: string): string {
  return hex.replaceAll(/[a-f]/g, (letter) => `[${letter}${letter.toUpperCase()}]`)
}

function escaped(character: string): string {
  return character.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
}

/** Between the bytes of a text of which each is written as its number. */
const BEFORE_HEX = '(?:%25|%|\\\\{1,7}(?:x|u00)|;?&#[xX]0{0,4}|[ :])?'
/** Shorter ones are the hashes and colours of others. */
const HEX_BYTES_MIN = 5

/** Dumped, or encoded by who encodes letters as well: `68:75`, `\\x68\\x75`, `%68%75`, `&#x68;&#x75;`. */
function hexSource(secret: string): string | undefined {
  const bytes = percentOf(secret)
  return bytes.length < HEX_BYTES_MIN ? undefined : bytes.map(anyCase).join(BEFORE_HEX)
}

/** All of it escaped as in JSON, where that is not its bytes: `\\u00e9`. */
function escapedSource(secret: string): string | undefined {
  const units = Array.from({ length: secret.length }, (_, at) => secret.charCodeAt(at))
  if (units.every((unit) => unit < 0x80)) return undefined
  const hex = units.map((unit) => anyCase(unit.toString(16).padStart(4, '0')))
  return hex.map((one) => `${ESCAPE}u${one}`).join('')
}

/** Little end first, and big end first. */
function utf16Of(secret: string): Buffer[] {
  const little = Buffer.from(secret, 'utf16le')
  return [little, Buffer.from(little).swap16()]
}

const NAME_CHARS_MIN = 8

/** As names of files have it, which are made from titles. */
function nameSource(secret: string): string | undefined {
  const name = secret.replaceAll(/[^A-Za-z0-9]+/g, '-').replaceAll(/^-|-$/g, '')
  if (name === secret || name.length < NAME_CHARS_MIN) return undefined
  return name.replaceAll('-', '[-_]')
}

/**
 * What is left of the base64 of any text that holds the secret: for each of the three alignments, the
 * letters that depend on nothing around it (RFC 4648).
 */
export function base64Cores(secret: string | Buffer): string[] {
  const bytes = typeof secret === 'string' ? Buffer.from(secret) : secret
  return [0, 1, 2]
    .map((before) => {
      const letters = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
      const from = Math.ceil((before * 8) / 6)
      const to = Math.floor(((before + bytes.length) * 8) / 6)
      return letters.slice(from, to)
    })
    .filter((letters) => letters.length >= BASE64_CHARS_MIN)
}

function base64Source(letters: string, inLines: boolean): string {
  const sources: Record<string, string> = { '+': '(?:[+-]|%2[bB])', '/': '(?:\\\\*/|_|%2[fF])' }
  return Array.from(letters, (letter) => sources[letter] ?? letter).join(inLines ? LINE_END : '')
}

const LINE_END = '(?:\\r?\\n|\\\\{1,7}(?:r\\\\{1,7})?n)?'
