// The reports of a round: what people read in the table and what CI systems read in JUnit XML, with
// names and messages that try to break out of both.
import { describe, expect, test } from 'vitest'
import { junitOf } from '../../src/client/report-junit.ts'
import { countsOf, tableOf } from '../../src/client/report-table.ts'
import { failure } from '../../src/contract/failure.ts'
import { aResult } from '../support/results.ts'

const refused = failure('CONNECT_REFUSED', 'nobody listens on 127.0.0.1:9')
const results = [
  aResult({ observed: { statusCode: 200 }, responseTimeMs: 3.21 }),
  aResult({
    monitorName: 'Mail & <post>',
    checkType: 'TCP',
    verdict: 'failed',
    failures: [refused],
  }),
  aResult({ verdict: 'errored', failures: [failure('INTERNAL', 'oh "no"')] }),
  aResult({ verdict: 'cancelled' }),
  aResult({ verdict: 'degraded' }),
]

const grpcStatus = (statusOrigin: string) => ({
  statusCode: 14,
  status: 'UNAVAILABLE',
  statusOrigin,
})

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
    ['a status of gRPC', 'GRPC', grpcStatus('server'), 'UNAVAILABLE'],
    ['no status that we made up', 'GRPC', grpcStatus('client'), ''],
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

  test.each([
    [0.0194, '0.019 ms'],
    [0.25, '0.25 ms'],
    [3.21, '3.2 ms'],
    [78.4, '78 ms'],
  ])('%d ms is shown as %s, never as none', (responseTimeMs, shown) => {
    expect(tableOf([aResult({ responseTimeMs })], { colour: false })).toContain(`URL  ${shown}`)
  })

  test('colours verdicts only where asked', () => {
    expect(tableOf(results, { colour: true })).toContain('\u001B[31mfailed ')
    expect(tableOf(results, { colour: false })).not.toContain('\u001B')
  })

  test('lets no control character of a name reach the terminal', () => {
    const table = tableOf([aResult({ monitorName: 'a\u001B[2Jb\n' })], { colour: false })
    expect(table).toContain('a [2Jb ')
  })

  test('counts one monitor in the singular and leaves out verdicts that did not come', () => {
    expect(countsOf([aResult()])).toBe('1 passed (1 monitor)')
  })
})

describe('JUnit XML', () => {
  const xml = junitOf(results)

  test('counts failures, errors and skipped apart', () => {
    expect(xml).toContain('tests="5" failures="1" errors="1" skipped="1"')
  })

  test('has the code as the type, and escapes markup', () => {
    expect(xml).toContain('name="Mail &amp; &lt;post&gt;"')
    expect(xml).toContain('<failure type="CONNECT_REFUSED"')
    expect(xml).toContain('<error type="INTERNAL" message="oh &quot;no&quot;">')
  })

  test('drops what XML cannot carry', () => {
    const odd = junitOf([aResult({ monitorName: 'a\u0000\u001B\uD800\uFFFEb' })])
    expect(odd).toContain('name="a\uFFFD\uFFFD\uFFFD\uFFFDb"')
  })
})
