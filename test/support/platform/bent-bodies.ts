// Invalid request bodies: valid ones with some fields replaced by problematic values.
import * as fc from 'fast-check'

/** Allowed statuses of a client error. */
export const FAULT_OF_CLIENT = [200, 201, 204, 400, 404, 409, 413]

/** Problematic values. */
export const nasty = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    0,
    -0,
    1e308,
    -1e308,
    Number.MAX_SAFE_INTEGER,
    '',
    ' ',
    '\0',
    'a\0b',
    '\ud800',
    '\udfff\ud800',
    "'; drop table incidents; --",
    '\u{1F6A8}'.repeat(255),
    '\u{1F6A8}'.repeat(256),
    'x'.repeat(10_001),
    '$1',
    '{{x}}',
    'constructor',
    '9999-12-31T23:59:59.999Z',
    '0000-01-01T00:00:00Z',
    '1969-12-31T23:59:59Z',
    '2026-02-30T00:00:00Z',
    '2026-01-01T00:00:00+14:00',
    '9999-12-31T23:59:59-14:00',
    'infinity',
    'now',
    [],
    {},
    [[]],
    [null],
    'http://user:pass@[::1]:99999/',
    'javascript:alert(1)',
    'HTTP://x',
    'https://x/"><script>',
    'ffffffff-ffff-ffff-ffff-ffffffffffff',
    '00000000-0000-0000-0000-000000000000',
  ),
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.jsonValue({ maxDepth: 5 }),
)

/** `body` with some of its fields, at any depth, replaced, dropped or added. */
export function bent(body: Record<string, unknown>): fc.Arbitrary<unknown> {
  const fields = Object.keys(body)
  const change = fc.record({
    field: fc.oneof(
      fc.constantFrom(...fields),
      fc.constantFrom('id', 'constructor', 'toString', 'description'),
    ),
    inner: fc.option(
      fc.constantFrom(
        'id',
        'name',
        'description',
        'status',
        'services',
        'publicIncidentUpdateDate',
        'notifySubscribers',
      ),
    ),
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
