// Aim: a dialogue goes step by step, says which step failed and why, and changes to TLS in the middle.
import { describe, expect, test } from 'vitest'
import { toMicroseconds } from '../../../src/contract/schema/duration.ts'
import { tcp } from '../../../src/monitors/tcp/index.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { checkMonitor } from '../../support/monitors/check-monitor.ts'
import {
  closing,
  resetting,
  saying,
  unresponsive,
  smtp,
  type Behaviour,
} from '../../support/monitors/tcp-servers.ts'
import { startRawServer } from '../../support/test-server.ts'

const run = (request: object, maxResponseTime = 3000) =>
  checkMonitor(tcp, { hostname: '127.0.0.1', ...request }, { maxResponseTime })

const authority = createAuthority()

const STARTTLS = [
  { expect: '^220 ' },
  { send: 'EHLO test\r\n' },
  { expect: '^250 STARTTLS' },
  { send: 'STARTTLS\r\n' },
  { expect: '^220 ' },
  { startTls: true },
  { send: 'EHLO test\r\n' },
  { expect: '^250 ' },
  { send: 'QUIT\r\n' },
  { expect: '^221 ' },
]

describe('STARTTLS with a mail server', () => {
  test('step by step, with the certificate seen', async () => {
    await using server = await startRawServer(smtp(authority.issue()))
    const { failures, observed } = await run({
      port: server.port,
      tls: { ca: authority.ca },
      dialogue: STARTTLS,
      assertions: [{ source: 'RESPONSE_DATA', comparison: 'CONTAINS', target: '221 bye' }],
    })
    expect(failures).toEqual([])
    expect(observed['dialogue']).toHaveLength(STARTTLS.length)
    expect(observed['dialogue']).toMatchObject(
      STARTTLS.map((_, at) => ({ step: at + 1, passed: true })),
    )
    const steps = observed['dialogue'] as { durationMs: number }[]
    for (const { durationMs } of steps) expect(durationMs).toBe(toMicroseconds(durationMs))
    const phases = { tlsMs: expect.any(Number) as number }
    expect(observed).toMatchObject({ tls: { verified: true }, phases })
  })

  test('a bad certificate ends it there', async () => {
    await using server = await startRawServer(smtp(authority.issue({ fromDays: -20, toDays: -10 })))
    const { failures, observed } = await run({ port: server.port, dialogue: STARTTLS })
    expect(failures).toMatchObject([{ code: 'TLS_EXPIRED' }])
    expect((observed['dialogue'] as unknown[]).at(-1)).toMatchObject({ step: 6, passed: false })
  })

  test('two of them are refused', () => {
    const dialogue = [{ startTls: true }, { startTls: true }]
    const request = { hostname: 'a', port: 1, dialogue }
    const monitor = { id: 'm', name: 'm', checkType: 'TCP', request }
    expect(tcp.schema.safeParse(monitor).success).toBe(false)
  })
})

describe('a step that fails', () => {
  const ready = [{ expect: '^220' }]
  const twice = [{ expect: '220' }, { expect: '220' }]
  const bomb = `${'a'.repeat(60)}!`
  test.each<[string, Behaviour, object[], string]>([
    ['the wrong greeting, then nothing', saying('500 no\r\n'), ready, 'TCP_EXPECT'],
    ['the wrong greeting, then the end', (socket) => socket.end('500 no'), ready, 'TCP_EXPECT'],
    ['no greeting', unresponsive, ready, 'TIMEOUT_FIRST_BYTE'],
    ['the end', closing, ready, 'CONNECTION_CLOSED'],
    ['a reset', resetting, [{ send: 'x' }, ...ready], 'CONNECTION_RESET'],
    ['what an earlier step used up', saying('220 a\r\n'), twice, 'TCP_EXPECT'],
    ['a regex bomb', saying(bomb), [{ expect: '(a+)+$' }], 'ASSERTION_REGEX_TIMEOUT'],
  ])('%s', async (_, behaviour, dialogue, code) => {
    await using server = await startRawServer(behaviour)
    expect((await run({ port: server.port, dialogue }, 700)).codes).toEqual([code])
  })

  test('reports the step, the pattern and the received text, also to Prometheus', async () => {
    await using server = await startRawServer((socket) => socket.end('500 no'))
    const { failures, observed } = await run({ port: server.port, dialogue: [{ expect: '^220' }] })
    expect(failures[0]?.details).toEqual({ step: 1, pattern: '^220', actual: '"500 no"' })
    expect(tcp.samples(observed)).toContainEqual({ name: 'probe_failed_due_to_regex', value: 1 })
  })
})

test('two lines in one piece serve two steps', async () => {
  await using server = await startRawServer(saying('220 one\r\n250 two\r\n'))
  const dialogue = [{ expect: '^220' }, { expect: '^250' }]
  expect((await run({ port: server.port, dialogue })).failures).toEqual([])
})

test('what is sent is not shown: it may be a password', async () => {
  await using server = await startRawServer(unresponsive)
  const { observed } = await run({ port: server.port, dialogue: [{ send: 'PASS hunter2\r\n' }] })
  expect(JSON.stringify(observed)).not.toContain('hunter2')
  expect(observed['dialogue']).toMatchObject([{ kind: 'send', bytes: 14, passed: true }])
})
