// Aim: envelopes of Sentry's protocol are read to the letter, and the stored part of an event has its bounds.
import { describe, expect, test } from 'vitest'
import * as faults from '../../../src/contract/protocol/fault-report.ts'

const { FAULT_BOUNDS, FaultReport, readEnvelope, reportOf } = faults
const read = (text: string) => readEnvelope(Buffer.from(text))
const event = '{"message":"x"}'
const TOO_MANY = `{}\n${`{"type":"event"}\n${event}\n`.repeat(FAULT_BOUNDS.envelopeItemsMax + 1)}`

describe('an envelope', () => {
  test.each([
    ['with a length', `{"event_id":"a"}\n{"type":"event","length":15}\n${event}\n`],
    ['without a length', `{"event_id":"a"}\n{"type":"event"}\n${event}\n`],
    ['without a line end at its end', `{"event_id":"a"}\n{"type":"event","length":15}\n${event}`],
    ['with an empty line', `{"event_id":"a"}\n\n{"type":"event"}\n${event}\n\n`],
    [
      'with other items, whose bytes hold line ends',
      `{"event_id":"a"}\n{"type":"attachment","length":3}\n\n{\n\n{"type":"event"}\n${event}`,
    ],
  ])('is read %s', (_, text) => {
    expect(read(text)).toEqual({ eventId: 'a', events: [{ message: 'x' }] })
    expect(read('{}')).toEqual({ eventId: undefined, events: [] })
  })

  test.each([
    ['nothing at all', ''],
    ['a list', '[]\n'],
    ['an item without a type', '{}\n{}\nx\n'],
    ['an item whose head is no JSON', '{}\n{x\n'],
    ['an item that is shorter than it says', `{}\n{"type":"event","length":16}\n${event}`],
    ['an item that is longer', `{}\n{"type":"event","length":14}\n${event}\n`],
    ['a length below zero', `{}\n{"type":"event","length":-1}\n${event}\n`],
    ['a length that is no number', `{}\n{"type":"event","length":"15"}\n${event}\n`],
    ['an event that is no object', '{}\n{"type":"event"}\n[1]\n'],
    ['too many items', TOO_MANY],
  ])('is refused: %s', (_, text) => {
    expect(() => read(text)).toThrow(SyntaxError)
  })
})

describe('a report', () => {
  test('of an event of ours has all of it', () => {
    const frames = [
      { function: 'outer', filename: 'src/a.ts', lineno: 1, in_app: true },
      { filename: 'src/b.ts', lineno: 2, in_app: true },
    ]
    const os = { name: 'Linux', version: '6.12.1' }
    const last = { type: 'B', value: 'b', stacktrace: { frames } }
    const report = reportOf({
      level: 'fatal',
      release: 'vedette-agent@8.4.0',
      contexts: { os, device: { arch: 'x64' }, runtime: { name: 'node', version: 'v24.12.0' } },
      exception: { values: [{ type: 'A', value: 'cause' }, last] },
    })
    expect(report).toEqual({
      level: 'fatal',
      type: 'B',
      message: 'b',
      stack: [
        { function: null, file: 'src/b.ts', line: 2 },
        { function: 'outer', file: 'src/a.ts', line: 1 },
      ],
      release: 'vedette-agent@8.4.0',
      os: 'Linux 6.12.1 x64',
      engine: 'node v24.12.0',
    })
  })

  test.each([3, {}, { exception: 'x' }])('is not made of %j', (value) =>
    expect(reportOf(value)).toBeUndefined(),
  )

  test('of a large and odd one has its bounds', () => {
    const frames = Array.from({ length: 1000 }, () => ({ filename: 7, lineno: '1' }))
    const value = 'a\0\ud800'.repeat(10_000)
    const exception = [{ type: 5, value, stacktrace: { frames } }]
    const odd = { level: { a: 1 }, release: 'x'.repeat(10_000), contexts: 7, exception }
    const report = reportOf(odd)
    expect(FaultReport.safeParse(report).success).toBe(true)
    expect(JSON.stringify(report).length).toBeLessThan(20_000)
    expect(report?.message.isWellFormed()).toBe(true)
    expect(report?.message).not.toContain('\0')
    expect(report?.stack).toHaveLength(FAULT_BOUNDS.placesMax)
  })
})
