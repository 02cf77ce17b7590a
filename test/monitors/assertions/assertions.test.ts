// Aim: each comparison means what the documentation says for every kind of value, long integers to the digit; every
// failing assertion is reported; and no pattern or path that somebody writes stops the event loop or outlives its time.
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import * as fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { COMPARISONS, type Assertion, type Comparison } from '../../../src/contract/assertion.ts'
import { parseExactJson } from '../../../src/contract/exact-json.ts'
import { LIMITS } from '../../../src/contract/versions.ts'
import { endOfMatch, evaluateAssertions } from '../../../src/monitors/assertions/assertions.ts'
import { holds, type Actual } from '../../../src/monitors/assertions/comparison.ts'
import { EvaluationThread } from '../../../src/monitors/assertions/evaluation-thread.ts'
import { assertion } from '../../support/monitors/check-monitor.ts'
import { deadlineAfter } from '../../support/monitors/monitor-context.ts'
import { startStopwatch } from '../../support/stopwatch.ts'

const { signal } = new AbortController()

const of = (line: string, regex: string | null = null) =>
  ({ ...assertion(line), regex }) as Assertion

/** Evaluates assertions on a text that is given as JSON_BODY, TEXT_BODY and a header. */
async function evaluate(text: string, ...assertions: Assertion[]) {
  const sources = {
    JSON_BODY: { kind: 'json', text: () => text },
    TEXT_BODY: { kind: 'text', text: () => text },
    HEADERS: { kind: 'value', value: (name: string) => (name === 'x-text' ? text : undefined) },
    STATUS_CODE: { kind: 'value', value: () => 200 },
  } as const
  return evaluateAssertions(assertions, sources, signal)
}

async function codesOf(text: string, ...assertions: Assertion[]): Promise<string[]> {
  return (await evaluate(text, ...assertions)).map(({ code }) => code)
}

const EVEN = '9007199254740992'
const ODD = '9007199254740993'
const TWENTY = '12345678901234567890'

describe('comparisons', () => {
  const missing = undefined
  test.each<[string, Actual, Comparison, string, boolean]>([
    ['numbers are equal by value', 200, 'EQUALS', '200.0', true],
    ['a text that is a number too', '200', 'EQUALS', '2e2', true],
    ['leading zeros make a text', '007', 'EQUALS', '7', false],
    ['a number is no text around it', 5, 'EQUALS', '', false],
    ['true by its name', true, 'EQUALS', 'true', true],
    ['missing equals nothing', missing, 'EQUALS', '', false],
    ['objects by structure', { a: 1, b: [2] }, 'EQUALS', '{"b":[2],"a":1.0}', true],
    ['greater', 10, 'GREATER_THAN', '9.5', true],
    ['not by the alphabet', 'b', 'GREATER_THAN', 'a', false],
    ['nothing is no number', missing, 'LESS_THAN', '1', false],
    ['a part of a text', 'all is well', 'CONTAINS', 'is', true],
    ['an element, whole', ['one', 'two'], 'CONTAINS', 'tw', false],
    ['an element by value', [1, 2], 'CONTAINS', '2.0', true],
    ['a member', { a: 1 }, 'HAS_KEY', 'a', true],
    ['no inherited member', { a: 1 }, 'HAS_KEY', 'toString', false],
    ['an index beyond', ['x'], 'HAS_KEY', '1', false],
    ['a member of one of several', [{ a: 1 }, { b: 1 }], 'HAS_KEY', 'b', true],
    ['a text has no keys', 'abc', 'NOT_HAS_KEY', '0', true],
    ['a value in one of several', [{ a: 5 }], 'HAS_VALUE', '5', true],
    ['an empty text', '', 'IS_EMPTY', '', true],
    ['an empty object', {}, 'IS_EMPTY', '', true],
    ['null is empty', null, 'IS_EMPTY', '', true],
    ['zero is not empty', 0, 'NOT_EMPTY', '', true],
    ['missing is null', missing, 'IS_NULL', '', true],
    ['an empty text is not null', '', 'NOT_NULL', '', true],
  ])('%s: %j %s %j is %s', (_, actual, comparison, target, expected) => {
    expect(holds(comparison, actual, target)).toBe(expected)
  })

  const actuals = fc.option(fc.jsonValue() as fc.Arbitrary<Actual>, { nil: undefined })

  test('never throw, and each opposite is the exact opposite', () => {
    const pairs = [
      ['EQUALS', 'NOT_EQUALS'],
      ['CONTAINS', 'NOT_CONTAINS'],
      ['HAS_KEY', 'NOT_HAS_KEY'],
      ['HAS_VALUE', 'NOT_HAS_VALUE'],
      ['IS_EMPTY', 'NOT_EMPTY'],
      ['IS_NULL', 'NOT_NULL'],
    ] as const
    const all = [...pairs.flat(), 'GREATER_THAN', 'LESS_THAN']
    expect(all.toSorted()).toEqual([...COMPARISONS].toSorted())
    fc.assert(
      fc.property(actuals, fc.oneof(fc.string(), fc.json()), (actual, target) => {
        for (const [one, other] of pairs) {
          expect(holds(one, actual, target)).toBe(!holds(other, actual, target))
        }
        const orders = [holds('GREATER_THAN', actual, target), holds('LESS_THAN', actual, target)]
        expect(orders).not.toEqual([true, true])
      }),
    )
  })

  test.each<[string, Comparison, string, boolean]>([
    [EVEN, 'EQUALS', ODD, false],
    [ODD, 'EQUALS', `${ODD}.0`, true],
    [ODD, 'EQUALS', `${EVEN}.0`, false],
    [`-${ODD}`, 'EQUALS', ODD, false],
    ['1e23', 'EQUALS', '100000000000000000000000', true],
    [ODD, 'GREATER_THAN', EVEN, true],
    [ODD, 'GREATER_THAN', '9007199254740991', true],
    [`-${ODD}`, 'LESS_THAN', `-${EVEN}`, true],
    [TWENTY, 'LESS_THAN', '1e300', true],
    [`"${ODD}"`, 'EQUALS', EVEN, false],
    [`"${ODD}"`, 'GREATER_THAN', EVEN, true],
    [ODD, 'CONTAINS', '0993', true],
    [`[${ODD}]`, 'CONTAINS', EVEN, false],
    [`[1,${ODD}]`, 'EQUALS', `[1.0, ${ODD}]`, true],
    [`{"a":${ODD}}`, 'HAS_VALUE', EVEN, false],
    // Longer than any number that is kept exactly: unequal at least.
    ['7'.repeat(2000), 'EQUALS', '8'.repeat(2000), false],
  ])('of long integers, to the digit: %s %s %s is %s', (actual, comparison, target, expected) => {
    expect(holds(comparison, parseExactJson(actual) as Actual, target)).toBe(expected)
  })
})

describe('reports', () => {
  test('every assertion that fails, in order, as text and as plain data', async () => {
    const failures = await evaluate(
      `{"status":"down","n":1,"id":${ODD}}`,
      of('JSON_BODY $.n EQUALS 1'),
      of('JSON_BODY $.status EQUALS ok'),
      of('STATUS_CODE  LESS_THAN 200'),
      of(`JSON_BODY $.id EQUALS ${EVEN}`),
    )
    const one = { source: 'JSON_BODY', property: '$.status', comparison: 'EQUALS', target: 'ok' }
    const message = expect.stringContaining('assertion 2') as string
    expect(failures).toMatchObject([
      { code: 'ASSERTION_FAILED', message, details: { index: 1, ...one, actual: '"down"' } },
      { details: { index: 2, source: 'STATUS_CODE' } },
      { details: { actual: ODD, target: EVEN } },
    ])
    expect(JSON.parse(JSON.stringify(failures))).toEqual(failures)
  })

  test.each([
    ['text that is no JSON', '<html>', ['ASSERTION_FAILED']],
    ['JSON nested too deep for us', '['.repeat(1_000_000), ['ASSERTION_INVALID']],
    ['JSON a little too deep', `${'['.repeat(513)}${']'.repeat(513)}`, ['ASSERTION_INVALID']],
    // Brackets in texts do not count.
    ['JSON at the limit', `${'['.repeat(511)}"${'['.repeat(999)}\\""${']'.repeat(511)}`, []],
    // A limit of ours: the target may be fine.
    ['too many values', `[${'{},'.repeat(LIMITS.jsonValuesMax)}{}]`, ['ASSERTION_INVALID']],
  ])('assertions on JSON of %s', async (_, text, codes) => {
    expect(await codesOf(text, of('JSON_BODY  NOT_EQUALS x'))).toEqual(codes)
  })

  test('a source that the monitor does not have is our fault', async () => {
    expect(await codesOf('', of('NOWHERE  IS_NULL'))).toEqual(['ASSERTION_INVALID'])
  })

  test('sources are asked once, and only when needed', async () => {
    let asked = 0
    const counted = { kind: 'text', text: () => `${++asked}` } as const
    const both = [of('A  NOT_EMPTY'), of('A  NOT_NULL')]
    await evaluateAssertions(both, { A: counted, B: counted }, signal)
    expect(asked).toBe(1)
  })
})

describe('extraction', () => {
  const users = `{"id":${ODD},"users":[{"id":${EVEN},"name":"a"},{"id":${ODD},"name":"b"}]}`
  test.each<[string, string, Assertion]>([
    ['the first group', 'v=12;', of('TEXT_BODY v=(\\d+) EQUALS 12')],
    ['no match is missing', 'v=x', of('TEXT_BODY \\d+ IS_NULL')],
    ['a header that is missing', '', of('HEADERS x-other IS_NULL')],
    ['one match is the value', '[7]', of('JSON_BODY $[*] EQUALS 7')],
    ['a regex on a JSON value', '{"v":"v12"}', of('JSON_BODY $.v GREATER_THAN 11', '\\d+')],
    ['a long integer', users, of(`JSON_BODY $.id EQUALS ${ODD}`)],
    ['a filter between two paths', users, of('JSON_BODY $.users[?@.id==$.id].name EQUALS b')],
    ['several are a list', users, of(`JSON_BODY $.users[*].id EQUALS [${EVEN},${ODD}]`)],
    ['the whole document', users, of(`JSON_BODY  HAS_VALUE ${ODD}`)],
    ['a regex on digits', users, of('JSON_BODY $.id EQUALS 993', '(\\d{3})$')],
  ])('%s', async (_, body, one) => {
    expect(await codesOf(body, one)).toEqual([])
  })

  test('the same in the thread that evaluates expensive ones', async () => {
    const property = `$.users[?search(@.name,'b')&&@.id>${EVEN}].id`
    expect(await codesOf(users, of(`JSON_BODY ${property} EQUALS ${ODD}`))).toEqual([])
    const failures = await evaluate(users, of(`JSON_BODY ${property} EQUALS ${EVEN}`))
    expect(failures).toMatchObject([{ code: 'ASSERTION_FAILED', details: { actual: ODD } }])
  })

  test('where a match ends, by lines, or -1', async () => {
    expect(await endOfMatch('^250 ', '250-a\r\n250 ok\r\n', signal)).toBe(11)
    expect(await endOfMatch('^', 'x', signal)).toBe(0)
    expect(await endOfMatch('z', 'x', signal)).toBe(-1)
  })
})

describe('time', () => {
  const bomb = `${'a'.repeat(60)}!`
  const row = Array.from({ length: 100 }, () => [1, [2, [3]]])
  const bigJson = JSON.stringify(Array.from({ length: 400 }, () => row))
  const slow = of('TEXT (a+)+$ NOT_NULL')
  const sources = { TEXT: { kind: 'text', text: () => bomb } } as const
  test.each<[string, string, Assertion]>([
    ['a header', bomb, of('HEADERS x-text NOT_NULL', '(a+)+$')],
    ['match() in a path', `["${bomb}"]`, of(`JSON_BODY $[?match(@,'(a+)+')] NOT_NULL`)],
    ['nested counting', bigJson, of('JSON_BODY $..[?count($..*)==1] NOT_NULL')],
  ])('%s is stopped, and the loop goes on meanwhile', async (_, body, one) => {
    let turns = 0
    // Due many times before the limit: a loop that stands still until the end has no turn at all.
    const ticking = setInterval(() => turns++, LIMITS.regexMs / 50)
    const codes = await codesOf(body, one)
    clearInterval(ticking)
    expect(codes).toEqual(['ASSERTION_REGEX_TIMEOUT'])
    expect(turns).toBeGreaterThan(0)
  })

  test('after a stop the next one is answered, and others are not blamed', async () => {
    const fine = of(`TEXT_BODY (?=a)(a+)(?=!) EQUALS ${'a'.repeat(60)}`)
    const failures = await evaluate(bomb, of('TEXT_BODY (a+)+$ NOT_NULL'), fine)
    expect(failures.map(({ details }) => details?.['index'])).toEqual([0])
  })

  test.each([
    ['before the thread is ready is not the assertion’s', 1, 'a', 'RESOURCES_EXHAUSTED'],
    ['in the thread is', undefined, '(a+)+$', 'ASSERTION_REGEX_TIMEOUT'],
  ])('that runs out %s', async (_, readyMs, property, code) => {
    const thread = new EvaluationThread(readyMs)
    const material = { kind: 'text', text: bomb } as const
    const outcome = await thread.evaluate(of(`TEXT_BODY ${property} EQUALS x`), material, signal)
    expect(outcome).toMatchObject({ failure: { code } })
  })

  test('a machine that others use is not held against an assertion', async () => {
    const spin = new URL('data:text/javascript,for(;;);')
    const others = Array.from({ length: 2 * availableParallelism() }, () => new Worker(spin))
    onTestFinished(async () => {
      await Promise.all(others.map((one) => one.terminate()))
    })
    expect(await codesOf(bigJson, of('JSON_BODY $..* NOT_NULL'))).toEqual([])
  })

  test('the size of a body is not held against a simple path', async () => {
    const wide = `{"rows":[${`{"name":"${'x'.repeat(100)}"},`.repeat(80_000)}0],"status":"ok"}`
    const one = of('JSON_BODY $.status EQUALS ok')
    expect(await codesOf(wide, one, one, one)).toEqual([])
  })

  test('the worst JSON within the limits is within the memory of the thread', async () => {
    const rows = Array.from(
      { length: LIMITS.jsonValuesMax / 4 - 1 },
      (_, at) => `{"a${at}":1,"b${at}":2,"c${at}":9007199254740993}`,
    )
    const codes = await codesOf(`[${rows.join()}]`, of('JSON_BODY $..* NOT_EMPTY', '(?=1)1'))
    expect(codes).not.toContain('ASSERTION_INVALID')
  })

  test('a cancelled run waits no longer, and a deadline names the pattern it fell into', async () => {
    const controller = new AbortController()
    const waiting = evaluateAssertions([slow, slow], sources, controller.signal)
    const ownMs = startStopwatch()
    controller.abort(new Error('enough'))
    expect(await waiting).toMatchObject([{ code: 'CANCELLED' }])
    expect(ownMs()).toBeLessThan(50)
    const late = await evaluateAssertions([slow], sources, deadlineAfter(20))
    expect(late).toMatchObject([{ code: 'ASSERTION_REGEX_TIMEOUT' }])
  })

  test('the queue is bounded: an assertion beyond it is refused', async () => {
    const controller = new AbortController()
    const asking = () => evaluateAssertions([slow], sources, controller.signal)
    const line = Array.from({ length: LIMITS.assertionsWaitingMax + 1 }, asking)
    expect(await asking()).toMatchObject([{ code: 'ASSERTION_QUEUE_FULL' }])
    controller.abort(new Error('enough'))
    await Promise.all(line)
  })
})

describe('hundreds, each cheap enough for the event loop,', () => {
  const json = JSON.stringify(Array.from({ length: 18_000 }, (_, at) => ({ at })))
  const sources = { JSON_BODY: { kind: 'json', text: () => json } } as const
  const many = Array.from({ length: LIMITS.assertionsMax / 2 }, (_, at) =>
    of('JSON_BODY $ IS_EMPTY', `none${at}`),
  )

  test('do not hold it up together', async () => {
    let turns = 0
    const ticking = setInterval(() => turns++, 1)
    const failures = await evaluateAssertions(many, sources, signal)
    clearInterval(ticking)
    expect(failures).toEqual([])
    expect(turns).toBeGreaterThan(5)
  })

  test('do not pass in a run that is cancelled in between', async () => {
    const controller = new AbortController()
    setImmediate(() => controller.abort(new Error('enough')))
    const failures = await evaluateAssertions(many, sources, controller.signal)
    expect(failures.map(({ code }) => code)).toEqual(['CANCELLED'])
  })
})
