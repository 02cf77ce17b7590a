// Invalid request bodies: valid ones with some fields replaced by problematic values.
import * as fc from 'fast-check'

/** Allowed statuses of a client error. */
export const FAULT_OF_CLIENT = [200, 201, 204, 400, 404, 409, 413]

const NASTY_TEXTS =
  `'; drop table incidents; --|$1|{{x}}|constructor|infinity|now|2026-02-30T00:00:00Z
9999-12-31T23:59:59.999Z|0000-01-01T00:00:00Z|2026-01-01T00:00:00+14:00|9999-12-31T23:59:59-14:00
http://user:pass@[::1]:99999/|javascript:alert(1)|HTTP://x|https://x/"><script>
ffffffff-ffff-ffff-ffff-ffffffffffff|00000000-0000-0000-0000-000000000000`.split(/[|\n]/)
const NASTY_NUMBERS = [0, -0, 1e308, -1e308, Number.MAX_SAFE_INTEGER]
const NASTY_CHARACTERS = ['', ' ', '\0', 'a\0b', '\ud800', '\udfff\ud800']
const NASTY_LENGTHS = [255, 256].map((length) => '\u{1F6A8}'.repeat(length))
const NASTY_SHAPES = [null, true, [], {}, [[]], [null]]

/** Problematic values. */
export const nasty = fc.oneof(
  fc.constantFrom<unknown>(...NASTY_TEXTS, ...NASTY_NUMBERS, ...NASTY_CHARACTERS),
  fc.constantFrom<unknown>(...NASTY_SHAPES, ...NASTY_LENGTHS, 'x'.repeat(10_001)),
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.jsonValue({ maxDepth: 5 }),
)

/** `body` with some of its fields, at any depth, replaced, dropped or added. */
export function bent(body: Record<string, unknown>): fc.Arbitrary<unknown> {
  const others = 'id constructor toString description'.split(' ')
  const within = 'id name description status services publicIncidentUpdateDate notifySubscribers'
  const change = fc.record({
    field: fc.oneof(fc.constantFrom(...Object.keys(body)), fc.constantFrom(...others)),
    inner: fc.option(fc.constantFrom(...within.split(' '))),
    value: fc.option(nasty, { nil: undefined }),
  })
  return fc.array(change, { minLength: 1, maxLength: 3 }).map((changes) => {
    const copy = structuredClone(body)
    for (const { field, inner, value } of changes) {
      const list = copy[field]
      const first: unknown = Array.isArray(list) ? list[0] : undefined
      if (inner !== null && typeof first === 'object' && first !== null)
        Object.assign(first, { [inner]: value })
      else copy[field] = value
    }
    return copy
  })
}
