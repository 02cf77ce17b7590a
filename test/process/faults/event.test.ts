// Aim: the report of a fault contains class, code, fixed text and places, and no data of the program.
import { arch } from 'node:os'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { Fault } from '../../../src/process/faults/fault.ts'
import { eventOf } from '../../../src/process/faults/event.ts'
import { pauseMsOf } from '../../../src/process/faults/sentry-envelope.ts'
import { temporaryFile } from '../../support/temporary-folder.ts'

const RELEASE = 'vedette-agent@8.4.0'
// No part of them may stand in this program, or a test could not fail by it: they are made of pieces.
const PLANTED = [
  'hunt|er2,Tr0ub4|dor,pl_abc|DEF0123456789,quokka|wombat,quokka|.depths.wombat,192.0.|2.77',
  'quokka@|wombat.example,/home/quokka|/wombat.pem,4111 1111| 1111 1111',
].flatMap((pieces) => pieces.replaceAll('|', '').split(','))

const exceptionsOf = (thrown: unknown) => eventOf(thrown, RELEASE).exception.values

const placesWith = (one: string) =>
  `Error: ${one}\n    at ${one} (node:${one}:1:1)\n    at f (/${one}/x.js:1:1)`

const caught = (work: () => unknown): unknown => {
  try {
    return work()
  } catch (error) {
    return error
  }
}

test.each<[string, (one: string) => unknown]>([
  ['plain text of it', (one) => new Error(`the check of ${one} failed`)],
  ['what JSON.parse says', (one) => caught(() => JSON.parse(`${one} {`))],
  ['a cause', (one) => new Error('outer', { cause: new Error(one, { cause: one }) })],
  ['its name', (one) => Object.assign(new Error('x'), { name: one })],
  ['further fields', (one) => Object.assign(new Error('x'), { [one]: one, code: one })],
  ['no error at all', (one) => one],
  ['an object', (one) => ({ [one]: one, message: one })],
  ['lines that look like places', (one) => new Error(placesWith(one))],
  ['a stack that somebody wrote', (one) => Object.assign(new Error(), { stack: placesWith(one) })],
  ['a function', (one) => caught(() => ({ [one]: () => new Error('x') })[one]?.())],
])('no secret leaves in %s', (_, make) => {
  for (const secret of PLANTED) {
    const text = JSON.stringify(exceptionsOf(make(secret)))
    const parts = secret
      .split(/[^A-Za-z0-9_]/)
      .filter((part) => part.length > 4 || /\d{2}/.test(part))
    for (const part of [secret, ...parts]) expect(text).not.toContain(part)
  }
})

test('a message is left out; a code and a fixed text are kept', () => {
  const [one] = exceptionsOf(caught(() => (undefined as unknown as { body: string }).body))
  expect(one).toMatchObject({ type: 'TypeError', value: '', mechanism: { handled: true } })
  const refused = Object.assign(new Error('connect 192.0.2.9'), { code: 'ECONNREFUSED' })
  expect(exceptionsOf(refused)).toMatchObject([{ type: 'Error', value: 'ECONNREFUSED' }])
  const fault = new Fault('RangeError', [], { code: 'INTERNAL', text: 'a fault of the agent' })
  expect(exceptionsOf(fault)).toMatchObject([{ type: 'RangeError', value: 'a fault of the agent' }])
})

test('causes precede their effects, and circular ones end', () => {
  const values = exceptionsOf(new Error('outer', { cause: new TypeError('inner') }))
  expect(values.map(({ type }) => type)).toEqual(['TypeError', 'Error'])
  const one = new Error('one')
  one.cause = one
  expect(exceptionsOf(one)).toHaveLength(3)
})

test('an error whose fields throw is reported as an Error', () => {
  const bad = new Error('x')
  const get = () => {
    throw new Error('no')
  }
  Object.defineProperty(bad, 'message', { get })
  expect(exceptionsOf(bad)).toMatchObject([{ type: 'Error' }])
})

test('places are relative to the program, with the line, the nearest last', () => {
  const [one] = exceptionsOf(caught(() => pauseMsOf(undefined as never)))
  const frames = one?.stacktrace?.frames ?? []
  expect(frames.at(-1)).toEqual({
    filename: 'src/process/faults/sentry-envelope.ts',
    lineno: expect.any(Number) as number,
    in_app: true,
  })
  expect(frames.every(({ filename }) => !filename.includes(process.cwd()))).toBe(true)
})

test('a file outside of the program is not named', async () => {
  const file = temporaryFile('quokka.mjs', 'export const fail = () => { throw new Error("x") }')
  const module: { fail: () => void } = await import(/* @vite-ignore */ pathToFileURL(file).href)
  expect(JSON.stringify(exceptionsOf(caught(module.fail)))).not.toContain('quokka')
})

test('the rest describes the runtime', () => {
  const event = eventOf(new Error('x'), RELEASE, true)
  expect(event).toMatchObject({ release: RELEASE, platform: 'node', level: 'fatal' })
  expect(event.contexts).toEqual({
    os: { name: 'Linux', version: expect.stringMatching(/^\d+(\.\d+)*$/) as string },
    device: { arch: arch() },
    runtime: { name: 'node', version: process.version },
  })
})
