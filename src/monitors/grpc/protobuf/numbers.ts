// Numbers of a request as ProtoJSON allows them to be written: 64-bit ones as texts, all of them as numbers
// or texts, within the bounds of their type.
import type { FieldKind } from './schema.ts'

const BOUNDS: Partial<Record<FieldKind, readonly [bigint, bigint]>> = {
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  sint32: [-(2n ** 31n), 2n ** 31n - 1n],
  sfixed32: [-(2n ** 31n), 2n ** 31n - 1n],
  uint32: [0n, 2n ** 32n - 1n],
  fixed32: [0n, 2n ** 32n - 1n],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  sint64: [-(2n ** 63n), 2n ** 63n - 1n],
  sfixed64: [-(2n ** 63n), 2n ** 63n - 1n],
  uint64: [0n, 2n ** 64n - 1n],
  fixed64: [0n, 2n ** 64n - 1n],
}

const FLOAT_MAX = 3.402_823_466_385_288_6e38

/** The integer, or undefined when the value is none that the type can hold. `1.0` and `"1e2"` are integers. */
export function integerOf(value: unknown, kind: FieldKind): bigint | undefined {
  const whole = wholeOf(value)
  const bounds = BOUNDS[kind]
  if (whole === undefined || bounds === undefined) return undefined
  return whole >= bounds[0] && whole <= bounds[1] ? whole : undefined
}

function wholeOf(value: unknown): bigint | undefined {
  if (typeof value === 'bigint') return value
  if (typeof value === 'string') {
    if (/^-?\d{1,40}$/.test(value)) return BigInt(value)
    return DECIMAL.test(value) ? wholeOf(Number(value)) : undefined
  }
  return typeof value === 'number' && Number.isInteger(value) ? BigInt(value) : undefined
}

const DECIMAL = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?$/
const NAMED: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
}

/** The number, or undefined when the value is none. */
export function numberOf(value: unknown, kind: 'double' | 'float' = 'double'): number | undefined {
  const number = plainNumber(value)
  if (number === undefined || kind === 'double' || !Number.isFinite(number)) return number
  return Math.abs(number) <= FLOAT_MAX ? number : undefined
}

function plainNumber(value: unknown): number | undefined {
  if (typeof value === 'number') return value
  if (typeof value === 'bigint') return Number(value)
  if (typeof value !== 'string') return undefined
  if (Object.hasOwn(NAMED, value)) return NAMED[value]
  return DECIMAL.test(value) ? Number(value) : undefined
}
