// Aim: each comparison means what the documentation says for every kind of value, every failing assertion
// is reported, and no pattern or path that somebody writes stops the event loop or outlives its time.
import { availableParallelism } from 'node:os'
import { isDeepStrictEqual } from 'node:util'
import { Worker } from 'node:worker_threads'
import * as fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { COMPARISONS, type Assertion, type Comparison } from '../../../src/contract/assertion.ts'
import { LIMITS } from '../../../src/contract/versions.ts'
import {
  endOfMatch,
  evaluateAssertions,
  regexStepsMax,
} from '../../../src/monitors/assertions/assertions.ts'
import { excerptOf, holds, type Actual } from '../../../src/monitors/assertions/comparison.ts'
import { deadlineAfter } from '../../support/monitors/monitor-context.ts'
import { startStopwatch } from '../../support/stopwatch.ts'

const signal = new AbortController().signal

function assertion(
  source: string,
  comparison: Comparison,
  rest: Partial<Assertion> = {},
): Assertion {
  return { source, property: '', comparison, target: '', regex: null, ...rest }
}

/** Evaluates one assertion on a text that is given as JSON_BODY, TEXT_BODY and a header. */
async function evaluate(text: string, ...assertions: Assertion[]) {
  return evaluateAssertions(
    assertions,
    {
      JSON_BODY: { kind: 'json', text: () => text },
      TEXT_BODY: { kind: 'text', text: () => text },
      HEADERS: { kind: 'value', value: (name) => (name === 'x-text' ? text : undefined) },
      STATUS_CODE: { kind: 'value', value: () => 200 },
    },
    signal,
  )
}

describe('comparisons', () => {
  const missing = undefined
  test.each<[string, Actual, Comparison, string, boolean]>([
    ['numbers are equal by value', 200, 'EQUALS', '200.0', true],
    ['a text that is a number too', '200', 'EQUALS', '2e2', true],
    ['other texts letter by letter', 'ok', 'EQUALS', 'OK', false],
    ['leading zeros make a text', '007', 'EQUALS', '7', false],
    ['a number is no text around it', 5, 'EQUALS', '', false],
    ['true by its name', true, 'EQUALS', 'true', true],
    ['null by its name', null, 'EQUALS', 'null', true],
    ['missing equals nothing', missing, 'EQUALS', '', false],
    ['missing differs from all', missing, 'NOT_EQUALS', 'x', true],
    ['objects by structure', { a: 1, b: [2] }, 'EQUALS', '{"b":[2],"a":1.0}', true],
    ['objects need JSON', { a: 1 }, 'EQUALS', 'a', false],
    ['arrays in order', [1, 2], 'EQUALS', '[2,1]', false],
    ['greater', 10, 'GREATER_THAN', '9.5', true],
    ['texts as numbers', '10', 'GREATER_THAN', '9', true],
    ['not by the alphabet', 'b', 'GREATER_THAN', 'a', false],
    ['nothing is no number', missing, 'LESS_THAN', '1', false],
    ['null is no zero', null, 'LESS_THAN', '1', false],
    ['a part of a text', 'all is well', 'CONTAINS', 'is', true],
    ['an element, whole', ['one', 'two'], 'CONTAINS', 'tw', false],
    ['an element by value', [1, 2], 'CONTAINS', '2.0', true],
    ['an object by its JSON', { a: 'b' }, 'CONTAINS', '"a":"b"', true],
    ['missing contains nothing', missing, 'NOT_CONTAINS', 'x', true],
    ['a member', { a: 1 }, 'HAS_KEY', 'a', true],
    ['no inherited member', { a: 1 }, 'HAS_KEY', 'toString', false],
    ['an index', ['x'], 'HAS_KEY', '0', true],
    ['an index beyond', ['x'], 'HAS_KEY', '1', false],
    ['a member of one of several', [{ a: 1 }, { b: 1 }], 'HAS_KEY', 'b', true],
    ['a text has no keys', 'abc', 'NOT_HAS_KEY', '0', true],
    ['a member value', { a: 'x' }, 'HAS_VALUE', 'x', true],
    ['an element value', ['x'], 'HAS_VALUE', 'x', true],
    ['a value in one of several', [{ a: 5 }], 'HAS_VALUE', '5', true],
    ['a text has no values', 'x', 'HAS_VALUE', 'x', false],
    ['an empty text', '', 'IS_EMPTY', '', true],
    ['an empty array', [], 'IS_EMPTY', '', true],
    ['an empty object', {}, 'IS_EMPTY', '', true],
    ['missing is empty', missing, 'IS_EMPTY', '', true],
    ['null is empty', null, 'IS_EMPTY', '', true],
    ['zero is not empty', 0, 'NOT_EMPTY', '', true],
    ['false is not empty', false, 'NOT_EMPTY', '', true],
    ['null', null, 'IS_NULL', '', true],
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
    expect([...pairs.flat(), 'GREATER_THAN', 'LESS_THAN'].toSorted()).toEqual(
      [...COMPARISONS].toSorted(),
    )
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

  test('every JSON value equals its own JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
        const target = typeof value === 'string' ? value : JSON.stringify(value)
        expect(holds('EQUALS', JSON.parse(JSON.stringify(value)) as Actual, target)).toBe(true)
      }),
    )
  })

  test('an excerpt is the JSON, cut', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.integer({ min: 1, max: 50 }), (value, max) => {
        const [shown, whole] = [excerptOf(value as Actual, max), JSON.stringify(value)]
        expect(shown.length).toBeLessThanOrEqual(max)
        expect(
          shown.length === max || isDeepStrictEqual(JSON.parse(shown), JSON.parse(whole)),
        ).toBe(true)
      }),
    )
  })
})

describe('reports', () => {
  test('every assertion that fails, in order, as text and as data', async () => {
    const failures = await evaluate(
      '{"status":"down","n":1}',
      assertion('JSON_BODY', 'EQUALS', { property: '$.n', target: '1' }),
      assertion('JSON_BODY', 'EQUALS', { property: '$.status', target: 'ok' }),
      assertion('STATUS_CODE', 'LESS_THAN', { target: '200' }),
    )
    const one = { source: 'JSON_BODY', property: '$.status', comparison: 'EQUALS', target: 'ok' }
    expect(failures).toMatchObject([
      {
        code: 'ASSERTION_FAILED',
        message: expect.stringContaining('assertion 2') as string,
        details: { index: 1, ...one, actual: '"down"' },
      },
      { details: { index: 2, source: 'STATUS_CODE' } },
    ])
  })

  test('cut the value at 200 characters', async () => {
    const [failed] = await evaluate('x'.repeat(5000), assertion('TEXT_BODY', 'IS_EMPTY'))
    expect(String(failed?.details?.['actual'])).toHaveLength(200)
  })

  test.each([
    ['text that is no JSON', '<html>', 'ASSERTION_FAILED'],
    ['no text at all', '', 'ASSERTION_FAILED'],
    ['JSON nested too deep for us', '['.repeat(1_000_000), 'ASSERTION_INVALID'],
    ['JSON a little too deep', `${'['.repeat(513)}${']'.repeat(513)}`, 'ASSERTION_INVALID'],
  ])('%s fails every assertion on JSON', async (_, text, code) => {
    const failures = await evaluate(text, assertion('JSON_BODY', 'NOT_EQUALS', { target: 'x' }))
    expect(failures.map((one) => one.code)).toEqual([code])
  })

  test('JSON at the depth limit is fine, brackets in texts do not count', async () => {
    const deep = `${'['.repeat(511)}"${'['.repeat(999)}\\""${']'.repeat(511)}`
    expect(await evaluate(deep, assertion('JSON_BODY', 'NOT_EMPTY'))).toEqual([])
  })

  test('a source that the monitor does not have is our fault', async () => {
    const [failed] = await evaluate('', assertion('NOWHERE', 'IS_NULL'))
    expect(failed?.code).toBe('ASSERTION_INVALID')
  })

  test('sources are asked once, and only when needed', async () => {
    let asked = 0
    const text = () => `${++asked}`
    await evaluateAssertions(
      [assertion('A', 'NOT_EMPTY'), assertion('A', 'NOT_NULL')],
      { A: { kind: 'text', text }, B: { kind: 'text', text } },
      signal,
    )
    expect(asked).toBe(1)
  })
})

describe('extraction', () => {
  const json = (property: string, target: string) =>
    assertion('JSON_BODY', 'EQUALS', { property, target })
  const text = (property: string, target: string) =>
    assertion('TEXT_BODY', 'EQUALS', { property, target })
  const header = { property: 'x-text', regex: 'q=(.)', target: '1' }
  const ofJson = { property: '$.v', regex: '\\d+', target: '11' }
  test.each<[string, string, Assertion]>([
    ['the first group', 'v=12;', text('v=(\\d+)', '12')],
    ['the whole match', 'v=12;', text('\\d+', '12')],
    ['no match is missing', 'v=x', assertion('TEXT_BODY', 'IS_NULL', { property: '\\d+' })],
    ['a header', 'a; q=1', assertion('HEADERS', 'EQUALS', header)],
    ['a header that is missing', '', assertion('HEADERS', 'IS_NULL', { property: 'x-other' })],
    ['one match is the value', '[7]', json('$[*]', '7')],
    ['several are a list', '[7,8]', json('$[*]', '[7,8]')],
    ['a length', '{"a":[1,2]}', json('$.a.length', '2')],
    ['a regex on a JSON value', '{"v":"v12"}', assertion('JSON_BODY', 'GREATER_THAN', ofJson)],
  ])('%s', async (_, body, one) => {
    expect(await evaluate(body, one)).toEqual([])
  })

  test('where a match ends, by lines, or -1', async () => {
    expect(await endOfMatch('^250 ', '250-a\r\n250 ok\r\n', signal)).toBe(11)
    expect(await endOfMatch('^', 'x', signal)).toBe(0)
    expect(await endOfMatch('z', 'x', signal)).toBe(-1)
  })
})

describe('time', () => {
  const bomb = `${'a'.repeat(60)}!`
  const bigJson = JSON.stringify(
    Array.from({ length: 400 }, () => Array.from({ length: 100 }, () => [1, [2, [3]]])),
  )
  const json = (property: string) => assertion('JSON_BODY', 'NOT_NULL', { property })
  const text = (property: string) => assertion('TEXT_BODY', 'NOT_NULL', { property })
  const slow = assertion('TEXT', 'NOT_NULL', { property: '(a+)+$' })
  const sources = { TEXT: { kind: 'text', text: () => bomb } } as const
  test.each<[string, string, Assertion]>([
    ['a text', bomb, text('(a+)+$')],
    ['a header', bomb, assertion('HEADERS', 'NOT_NULL', { property: 'x-text', regex: '(a+)+$' })],
    ['match() in a path', `["${bomb}"]`, json(`$[?match(@,'(a+)+')]`)],
    ['nested counting', bigJson, json('$..[?count($..*) == 1]')],
  ])('%s is stopped, and the loop goes on meanwhile', async (_, body, one) => {
    let turns = 0
    // Due many times before the limit: a loop that stands still until the end has no turn at all.
    const ticking = setInterval(() => turns++, LIMITS.regexMs / 50)
    const failures = await evaluate(body, one)
    clearInterval(ticking)
    expect(failures.map(({ code }) => code)).toEqual(['ASSERTION_REGEX_TIMEOUT'])
    expect(turns).toBeGreaterThan(0)
  })

  test('after a stop the next one is answered, and others are not blamed', async () => {
    const failures = await evaluate(
      bomb,
      text('(a+)+$'),
      assertion('TEXT_BODY', 'EQUALS', { property: '(?=a)(a+)(?=!)', target: 'a'.repeat(60) }),
    )
    expect(failures.map(({ details }) => details?.['index'])).toEqual([0])
  })

  test('a path with very many matches is evaluated elsewhere, not here', async () => {
    expect(await evaluate(bigJson, json('$..*'))).toEqual([])
  })

  test('a machine that others use is not held against an assertion', async () => {
    const spin = new URL('data:text/javascript,for(;;);')
    const others = Array.from({ length: 2 * availableParallelism() }, () => new Worker(spin))
    onTestFinished(async () => {
      await Promise.all(others.map((one) => one.terminate()))
    })
    expect(await evaluate(bigJson, json('$..*'))).toEqual([])
  })

  test('the size of a body is not held against a simple path', async () => {
    const row = `{"name":"${'x'.repeat(100)}","value":[1,2]},`
    const wide = `{"rows":[${row.repeat(80_000)}0],"status":"ok"}`
    const one = assertion('JSON_BODY', 'EQUALS', { property: '$.status', target: 'ok' })
    expect(await evaluate(wide, one, one, one)).toEqual([])
  })

  test('a text that would take too much memory as JSON is not parsed', async () => {
    const huge = `[${'{},'.repeat(LIMITS.jsonValuesMax)}{}]`
    const [failed] = await evaluate(huge, assertion('JSON_BODY', 'NOT_EMPTY'))
    // A limit of ours: the target may be fine.
    expect(failed?.code).toBe('ASSERTION_INVALID')
  })

  test('the worst JSON within the limits is within the memory of the thread', async () => {
    const rows = Array.from(
      { length: LIMITS.jsonValuesMax / 4 - 1 },
      (_, at) => `{"a${at}":1,"b${at}":2,"c${at}":9007199254740993}`,
    )
    const one = assertion('JSON_BODY', 'NOT_EMPTY', { property: '$..*', regex: '(?=1)1' })
    const failures = await evaluate(`[${rows.join()}]`, one)
    expect(failures.filter(({ code }) => code === 'ASSERTION_INVALID')).toEqual([])
  })

  test('a cancelled run waits no longer', async () => {
    const controller = new AbortController()
    const waiting = evaluateAssertions([slow, slow], sources, controller.signal)
    const ownMs = startStopwatch()
    controller.abort(new Error('enough'))
    expect((await waiting).map(({ code }) => code)).toEqual(['CANCELLED'])
    expect(ownMs()).toBeLessThan(50)
  })

  test('a deadline names the pattern that it fell into', async () => {
    const failures = await evaluateAssertions([slow], sources, deadlineAfter(20))
    expect(failures.map(({ code }) => code)).toEqual(['ASSERTION_REGEX_TIMEOUT'])
  })

  test('the queue is bounded: an assertion beyond it is refused', async () => {
    const controller = new AbortController()
    const line = Array.from({ length: LIMITS.assertionsWaitingMax + 1 }, () =>
      evaluateAssertions([slow], sources, controller.signal),
    )
    const [over] = await evaluateAssertions([slow], sources, controller.signal)
    expect(over?.code).toBe('ASSERTION_QUEUE_FULL')
    controller.abort(new Error('enough'))
    await Promise.all(line)
  })
})

describe('hundreds, each cheap enough for the event loop,', () => {
  const json = JSON.stringify(Array.from({ length: 18_000 }, (_, at) => ({ at })))
  const sources = { JSON_BODY: { kind: 'json', text: () => json } } as const
  const many = Array.from({ length: LIMITS.assertionsMax / 2 }, (_, at) =>
    assertion('JSON_BODY', 'IS_EMPTY', { property: '$', regex: `none${at}` }),
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

describe('cost of a pattern', () => {
  test.each([
    ['plain text', 'all is well', 1000, true],
    ['one repetition on a short text', 'v(\\d+)', 300, true],
    ['one repetition on a long text', 'v(\\d+)', 1_000_000, false],
    ['nested repetition', '(a+)+$', 10, false],
    ['overlapping choices', '(a|a)*b', 10, false],
    ['repeated greed', '(.*a){20}x', 10, false],
    ['many choices', '(a|a)'.repeat(40), 10, false],
    ['lookahead', '(?=a)', 10, false],
    ['a reference', '(a)\\1', 10, false],
  ])('%s', (_, pattern, characters, cheap) => {
    expect(regexStepsMax(pattern, characters) <= 5_000_000).toBe(cheap)
  })
})
