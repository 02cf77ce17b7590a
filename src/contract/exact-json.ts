// Numbers from JSON text without loss: a double holds 15 digits, and ids have more. An integer beyond 2^53
// becomes a BigInt; a number with a fraction or an exponent stays a double.

/** A decimal number as JSON writes it; `007`, `0x1f` and `1_000` are texts. */
export const DECIMAL = /^(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([-+]?[0-9]{1,9}))?$/

/** Digits from which on an integer may be beyond 2^53. */
const LONG_DIGITS_MIN = 16
/** Digits of an exact integer. A longer one is a double: reading it as BigInt takes more than linear time. */
const INTEGER_DIGITS_MAX = 1000
const LONG = `-?[1-9][0-9]{${LONG_DIGITS_MIN - 1},${INTEGER_DIGITS_MAX - 1}}`

const LONG_INTEGER = new RegExp(`^${LONG}$`)
// Outside of strings no other characters can stand around an integer. One before a colon is no JSON, and must not
// become a name by a mark.
const MAY_HOLD_LONG = new RegExp(String.raw`(?:^|[\s:,[-])[0-9]{${LONG_DIGITS_MIN}}`)
const QUOTE_OR_LONG = new RegExp(String.raw`"|(?<![^\s:,[])${LONG}(?![^\s,}\]]|\s*:)`, 'g')

/** Begins the strings that stand for long integers while a text is parsed. Random: no text can hold it. */
const MARK = crypto.randomUUID()

/** The number that a decimal text stands for, undefined for another text. Blanks around it do not count. */
export function readNumber(text: string): number | bigint | undefined {
  const trimmed = text.trim()
  if (!DECIMAL.test(trimmed)) return undefined
  const value = Number(trimmed)
  return isLong(trimmed, value) ? BigInt(trimmed) : value
}

/**
 * Below zero, zero or above zero, as `left` is less than, equal to or greater than `right`. Two integers are
 * compared exactly, others as doubles. NaN where both are beyond the range of a double.
 */
export function differenceOf(left: number | bigint, right: number | bigint): number {
  if (typeof left !== 'bigint' || typeof right !== 'bigint') return Number(left) - Number(right)
  if (left === right) return 0
  return left < right ? -1 : 1
}

/**
 * JSON.parse with every integer beyond 2^53 as `convert` makes it, a BigInt by default. Throws as JSON.parse
 * does. A reviver with the source of each number would do the same, at more than ten times the cost.
 */
export function parseExactJson(
  text: string,
  convert: (digits: string, key: string | number) => unknown = BigInt,
): unknown {
  const marked = MAY_HOLD_LONG.test(text) ? withMarks(text) : undefined
  if (marked === undefined) return JSON.parse(text)
  const root = [parseMarked(marked, text)]
  const waiting: object[] = [root]
  for (let holder = waiting.pop(); holder !== undefined; holder = waiting.pop()) {
    const keys = Array.isArray(holder) ? holder.keys() : Object.keys(holder)
    const members = holder as Record<string | number, unknown>
    for (const key of keys) {
      const value = members[key]
      if (typeof value === 'object' && value !== null) waiting.push(value)
      else if (typeof value === 'string' && value.startsWith(MARK)) {
        members[key] = convert(value.slice(MARK.length), key)
      }
    }
  }
  return root[0]
}

/** The value of a JSON text, as JSON.parse reads it; undefined for another text. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function parseMarked(marked: string, text: string): unknown {
  try {
    return JSON.parse(marked)
  } catch {
    // Neither is JSON then; the error is to name places of the text that was given.
    return JSON.parse(text)
  }
}

function isLong(digits: string, value: number): boolean {
  return !Number.isSafeInteger(value) && LONG_INTEGER.test(digits)
}

/** The JSON text with a string in the place of each long integer; undefined where it has none. */
function withMarks(text: string): string | undefined {
  let marked = ''
  let from = 0
  QUOTE_OR_LONG.lastIndex = 0
  for (;;) {
    const found = QUOTE_OR_LONG.exec(text)
    if (found === null) break
    const [token] = found
    if (token === '"') QUOTE_OR_LONG.lastIndex = endOfString(text, found.index) + 1
    else if (isLong(token, Number(token))) {
      marked += `${text.slice(from, found.index)}"${MARK}${token}"`
      from = found.index + token.length
    }
  }
  return from === 0 ? undefined : marked + text.slice(from)
}

/** Where the JSON string that starts at `at` has its closing quote. */
export function endOfString(text: string, at: number): number {
  for (;;) {
    const quote = text.indexOf('"', at + 1)
    if (quote === -1) return text.length
    let backslashes = 0
    while (text.charCodeAt(quote - 1 - backslashes) === 0x5c) backslashes++
    if (backslashes % 2 === 0) return quote
    at = quote
  }
}
