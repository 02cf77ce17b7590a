// Metrics of monitors: valid exposition text of the newest runs, which does not block the event loop.
import { expect, test } from 'vitest'
import { createMonitorMetrics } from '../../src/agent/monitor-metrics.ts'
import type { Verdict } from '../../src/contract/result.ts'
import { aResult } from '../support/results.ts'

const help = new Map([['probe_a', 'What a is.']])
async function collect(metrics: ReturnType<typeof createMonitorMetrics>): Promise<string> {
  let text = ''
  for await (const piece of metrics.text()) text += piece
  return text
}

const LABELS = 'monitor="shop",name="Shop",type="URL",location="office"'

test('a family stands together under one HELP and TYPE, with labels of monitor and sample', async () => {
  const metrics = createMonitorMetrics(help)
  const samples = [
    { name: 'probe_a', value: 1.5, labels: { phase: 'tls' } },
    { name: 'probe_b', value: 2 },
    { name: 'probe_a', value: 0, labels: { phase: 'dns' } },
  ]
  metrics.record(aResult(), samples)
  metrics.record(aResult({ monitorId: 'other' }), samples.slice(0, 1))
  const other = LABELS.replace('shop', 'other')
  expect(await collect(metrics)).toBe(
    [
      '# HELP probe_success Whether the newest run passed; absent when it says nothing about the target.',
      '# TYPE probe_success gauge',
      `probe_success{${LABELS}} 1`,
      `probe_success{${other}} 1`,
      '# HELP probe_duration_seconds How long the newest run took, with its retries.',
      '# TYPE probe_duration_seconds gauge',
      `probe_duration_seconds{${LABELS}} 0.01234`,
      `probe_duration_seconds{${other}} 0.01234`,
      '# HELP probe_a What a is.',
      '# TYPE probe_a gauge',
      `probe_a{${LABELS},phase="tls"} 1.5`,
      `probe_a{${LABELS},phase="dns"} 0`,
      `probe_a{${other},phase="tls"} 1.5`,
      '# HELP probe_b ',
      '# TYPE probe_b gauge',
      `probe_b{${LABELS}} 2`,
      '',
    ].join('\n'),
  )
})

test.each<[Verdict, string | undefined]>([
  ['passed', '1'],
  ['degraded', '1'],
  ['failed', '0'],
  ['errored', undefined],
  ['cancelled', undefined],
])('probe_success of %s is %s', async (verdict, expected) => {
  const metrics = createMonitorMetrics(help)
  metrics.record(aResult({ verdict }), [])
  expect(/^probe_success\{.*\} (.*)$/m.exec(await collect(metrics))?.[1]).toBe(expected)
})

test('the newest run replaces the one before, with all its samples and labels', async () => {
  const metrics = createMonitorMetrics(help)
  const old = { name: 'probe_a', value: 1, labels: { version: 'TLS 1.2' } }
  metrics.record(aResult(), [old, { name: 'probe_b', value: 1 }])
  const labels = { version: 'TLS 1.3' }
  metrics.record(aResult({ verdict: 'failed' }), [{ name: 'probe_a', value: 2, labels }])
  const text = await collect(metrics)
  expect(text).toContain(`probe_a{${LABELS},version="TLS 1.3"} 2\n`)
  expect(text).toContain(`probe_success{${LABELS}} 0\n`)
  expect(text).not.toMatch(/probe_b|TLS 1\.2/)
})

test('labels are escaped, and odd numbers have their names', async () => {
  const metrics = createMonitorMetrics(help)
  const values = [Number.NaN, Infinity, -Infinity, 1e21, 0.1]
  metrics.record(
    aResult({ monitorName: 'a "b" \\ c\nd' }),
    values.map((value, at) => ({ name: 'probe_a', value, labels: { at: String(at) } })),
  )
  const text = await collect(metrics)
  expect(text).toContain(String.raw`name="a \"b\" \\ c\nd"`)
  const numbers = [...text.matchAll(/^probe_a\{.*\} (.*)$/gm)].map((match) => match[1])
  expect(numbers).toEqual(['NaN', '+Inf', '-Inf', '1e+21', '0.1'])
})

test('removed monitors have no metrics', async () => {
  const metrics = createMonitorMetrics(help)
  metrics.record(aResult(), [])
  metrics.record(aResult({ monitorId: 'other' }), [])
  metrics.keepOnly(new Set(['other']))
  const text = await collect(metrics)
  expect(text).not.toContain('"shop"')
  expect(text).toContain('"other"')
  metrics.keepOnly(new Set())
  expect(await collect(metrics)).toBe('')
})

test('thousands of monitors are rendered in slices, and the event loop runs in between', async () => {
  const metrics = createMonitorMetrics(help)
  const samples = Array.from({ length: 15 }, (_, n) => ({ name: `probe_${n}`, value: n }))
  for (let n = 0; n < 2000; n++) metrics.record(aResult({ monitorId: `m${n}` }), samples)
  let turns = 0
  let done = false
  const turn = () => {
    turns++
    if (!done) setImmediate(turn)
  }
  setImmediate(turn)
  let lines = 0
  for await (const piece of metrics.text()) {
    const own = piece.split('\n').length
    expect(own).toBeLessThan(600)
    lines += own - 1
  }
  done = true
  expect(lines).toBe(17 * 2000 + 17 * 2)
  expect(turns).toBeGreaterThan(60)
})
