// The table and JUnit XML of a round, with names and messages that try to break out of both.
import { describe, expect, test } from 'vitest'
import { junitOf } from '../../src/client/report-junit.ts'
import { tableOf } from '../../src/client/report-table.ts'
import { failure } from '../../src/contract/failure.ts'
import { aResult } from '../support/results.ts'

const refused = failure('CONNECT_REFUSED', 'nobody listens on 127.0.0.1:9')
const MAIL = { monitorName: 'Mail & <post>', checkType: 'TCP' }
const results = [
  aResult({ observed: { statusCode: 200 }, responseTimeMs: 3.21 }),
  aResult({ ...MAIL, verdict: 'failed', failures: [refused] }),
  aResult({ verdict: 'errored', failures: [failure('INTERNAL', 'oh "no"')] }),
  aResult({ verdict: 'cancelled' }),
  aResult({ verdict: 'degraded' }),
]

const grpc = { statusCode: 14, status: 'UNAVAILABLE' }

describe('table', () => {
  test('shows one line a result, failures beneath, and the counts', () => {
    expect(tableOf(results.slice(0, 2), { colour: false })).toBe(
      [
        'passed  Shop           URL  3.2 ms  HTTP 200',
        'failed  Mail & <post>  TCP   12 ms',
        '        CONNECT_REFUSED: nobody listens on 127.0.0.1:9',
        '',
        '1 passed, 1 failed (2 monitors)',
        '',
      ].join('\n'),
    )
  })

  const soon = {
    connection: { tlsVersion: 'TLS1.3' },
    certificate: { daysUntilExpiry: 1 },
    securityBaseline: { grade: 'A-' },
    degradedBy: ['expiry: soon'],
  }
  const answered = { responseCode: 'NOERROR', counts: { answers: 2 } }
  const health = { statusCode: 0, healthStatus: 'NOT_SERVING' }
  test.each<[string, string, Record<string, unknown>, string]>([
    ['a status of gRPC', 'GRPC', { ...grpc, statusOrigin: 'server' }, 'UNAVAILABLE'],
    ['no status that we made up', 'GRPC', { ...grpc, statusOrigin: 'client' }, ''],
    ['health as its state', 'GRPC', health, 'NOT_SERVING'],
    ['hops of a trace', 'TRACEROUTE', { hops: [{}, {}, {}], hopCount: 3 }, '3 hops'],
    ['redirects', 'URL', { statusCode: 200, hops: [{}, {}] }, 'HTTP 200, 1 redirect'],
    ['an answer of DNS', 'DNS', answered, 'NOERROR, 2 answers'],
    ['lost echoes', 'ICMP', { packetLoss: 33.3 }, '33.3 % lost'],
    ['a certificate', 'SSL', soon, 'TLS1.3, 1 day left, grade A-, expiry: soon'],
    ['nothing of another version', 'SSL', { connection: null, certificate: 1 }, ''],
  ])('shows %s', (_, checkType, observed, observation) => {
    const text = tableOf([aResult({ checkType, observed, responseTimeMs: 12 })], { colour: false })
    expect(text.split('\n')[0]).toBe(`passed  Shop  ${checkType}  12 ms  ${observation}`.trimEnd())
  })

  test('shows short times with two digits, never as none', () => {
    const times = [0.0194, 0.25, 3.21, 78.4].map((responseTimeMs) => aResult({ responseTimeMs }))
    const shown = tableOf(times, { colour: false }).match(/(?<=URL +)\d\S* ms/g)
    expect(shown).toEqual(['0.019 ms', '0.25 ms', '3.2 ms', '78 ms'])
  })

  test('has colours only where asked, and never a control character of a name', () => {
    expect(tableOf(results, { colour: true })).toContain('\u001B[31mfailed ')
    const table = tableOf([aResult({ monitorName: 'a\u001B[2Jb\n' })], { colour: false })
    expect(table).toContain('a [2Jb ')
    expect(table).not.toContain('\u001B')
    expect(table).toContain('\n1 passed (1 monitor)\n')
  })
})

test('JUnit XML has counts, the code as the type, no markup, and nothing that XML cannot carry', () => {
  const xml = junitOf([...results, aResult({ monitorName: 'a\u0000\u001B\uD800\uFFFEb' })])
  for (const part of [
    'tests="6" failures="1" errors="1" skipped="1"',
    'name="Mail &amp; &lt;post&gt;"',
    '<failure type="CONNECT_REFUSED"',
    '<error type="INTERNAL" message="oh &quot;no&quot;">',
    'name="a\uFFFD\uFFFD\uFFFD\uFFFDb"',
  ]) {
    expect(xml).toContain(part)
  }
})
