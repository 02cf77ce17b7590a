// Character references of HTML: by number, and the names that programs escape with.

const code = (character: string) => character.charCodeAt(0)
const SEMICOLON = code(';')

/** The bytes of a name as one number, which is faster than a text → what it stands for. */
const NAMED = new Map(
  Object.entries({ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ' }).map(
    ([name, character]) => [
      Buffer.from(name).reduce((key, byte) => (key << 8) | byte, 0),
      code(character),
    ],
  ),
)

/** `&#x0010ffff;` with zeros in front. */
const REFERENCE_BYTES_MAX = 12

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
  const named = end <= at + 5 ? NAMED.get(key) : undefined
  const point = named ?? numbered(String.fromCharCode(...bytes.subarray(at + 1, end)))
  return point === undefined ? undefined : { point, end: end + 1 }
}

function numbered(reference: string): number | undefined {
  const [, decimal, hexadecimal] = /^#(?:(\d+)|[xX]([\da-fA-F]+))$/.exec(reference) ?? []
  if (decimal !== undefined) return Number(decimal)
  return hexadecimal === undefined ? undefined : parseInt(hexadecimal, 16)
}
