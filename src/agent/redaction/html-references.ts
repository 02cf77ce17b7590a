// Character references of HTML: by number, and the names of ASCII and Latin-1.

const code = (character: string) => character.charCodeAt(0)
const SEMICOLON = code(';')

/** The bytes of a usual name, of up to four letters, as one number → what it stands for. */
const USUAL = new Map(
  Object.entries({ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ' }).map(
    ([name, character]) => [
      Buffer.from(name).reduce((key, byte) => (key << 8) | byte, 0),
      code(character),
    ],
  ),
)

/** A character → its names (WHATWG, named character references). */
const ASCII = {
  '\t': 'Tab',
  '\n': 'NewLine',
  '!': 'excl',
  '"': 'QUOT',
  '#': 'num',
  $: 'dollar',
  '%': 'percnt',
  '&': 'AMP',
  '(': 'lpar',
  ')': 'rpar',
  '*': 'ast midast',
  '+': 'plus',
  ',': 'comma',
  '.': 'period',
  '/': 'sol',
  ':': 'colon',
  ';': 'semi',
  '<': 'LT',
  '=': 'equals',
  '>': 'GT',
  '?': 'quest',
  '@': 'commat',
  '[': 'lbrack lsqb',
  '\\': 'bsol',
  ']': 'rbrack rsqb',
  '^': 'Hat',
  _: 'lowbar UnderBar',
  '`': 'grave DiacriticalGrave',
  '{': 'lbrace lcub',
  '|': 'verbar vert VerticalLine',
  '}': 'rbrace rcub',
}
/** The names of the characters from U+00A0 on (HTML 4, 24.2). */
const LATIN1 = `nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute
  micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig
  Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash
  Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc
  euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml
  yacute thorn yuml`

/** Name → code point. */
const NAMED = new Map([
  ...Object.entries(ASCII).flatMap(([character, names]) =>
    names.split(' ').map((name): [string, number] => [name, code(character)]),
  ),
  ...LATIN1.split(/\s+/).map((name, at): [string, number] => [name, 0xa0 + at]),
])

/** `&DiacriticalGrave;`, and `&#x0010ffff;` with zeros in front. */
const REFERENCE_BYTES_MAX = 18

/** The code point of the reference that begins at `at`, and where it ends; undefined where there is none. */
export function htmlReference(
  bytes: Uint8Array,
  at: number,
): { point: number; end: number } | undefined {
  const limit = Math.min(bytes.length, at + REFERENCE_BYTES_MAX)
  let end = at + 1
  let key = 0
  while (end < limit && bytes[end] !== SEMICOLON) key = (key << 8) | (bytes[end++] as number)
  if (bytes[end] !== SEMICOLON) return undefined
  const usual = end <= at + 5 ? USUAL.get(key) : undefined
  const point = usual ?? pointOf(String.fromCharCode(...bytes.subarray(at + 1, end)))
  return point === undefined ? undefined : { point, end: end + 1 }
}

function pointOf(name: string): number | undefined {
  const [, decimal, hexadecimal] = /^#(?:(\d+)|[xX]([\da-fA-F]+))$/.exec(name) ?? []
  if (decimal !== undefined) return Number(decimal)
  return hexadecimal === undefined ? NAMED.get(name) : parseInt(hexadecimal, 16)
}
