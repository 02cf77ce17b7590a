// The targets of blackbox_exporter are read from Prometheus' configuration as Prometheus would make them.
import { stringify } from 'yaml'
import { describe, expect, test } from 'vitest'
import { imported } from '../../support/cli/imported-file.ts'
import { prometheusOf, RELABELLING } from '../../support/cli/prometheus-file.ts'

const TWO = ['192.0.2.1', '192.0.2.2']

describe('targets', () => {
  const modules = stringify({ modules: { m: { prober: 'icmp' }, other: { prober: 'icmp' } } })
  const read = (prometheus: string, options = {}) =>
    imported({ files: { 'blackbox.yml': modules, 'prometheus.yml': prometheus }, options })

  test('of all jobs, with their own intervals and modules by label', async () => {
    const byLabel = [{ source_labels: ['module'], target_label: '__param_module' }, ...RELABELLING]
    const job = { scrape_interval: '15s', relabel_configs: byLabel }
    const groups = [
      { targets: ['192.0.2.1', '192.0.2.2'], labels: { module: 'm' } },
      { targets: ['192.0.2.1'], labels: { module: 'other' } },
    ]
    const { code, monitors } = await read(prometheusOf([], { ...job, static_configs: groups }))
    expect(code).toBe(0)
    expect(monitors.map(({ id, frequencyOffset }) => [id, frequencyOffset])).toEqual([
      ['192-0-2-1', 15],
      ['192-0-2-2', 15],
      ['192-0-2-1-2', 15],
    ])
  })

  test.each([
    ['keep', { source_labels: ['__address__'], regex: '192.*1', action: 'keep' }, ['192.0.2.1']],
    ['drop', { source_labels: ['__address__'], regex: '192.*1', action: 'drop' }, ['192.0.2.2']],
    ['labeldrop', { regex: 'env', action: 'labeldrop' }, TWO],
    ['labelmap', { regex: 'env', replacement: 'stage', action: 'labelmap' }, TWO],
  ])('are relabelled by %s', async (_, rule, expected) => {
    const job = { relabel_configs: [rule, ...RELABELLING] }
    const { monitors } = await read(prometheusOf(TWO, job))
    expect(monitors.map(({ name }) => name)).toEqual(expected)
  })

  test.each([
    ['a rule that hashes', { relabel_configs: [{ action: 'hashmod', source_labels: ['a'] }] }],
    ['a rule with a broken expression', { relabel_configs: [{ regex: '(' }] }],
    ['a service discovery', { file_sd_configs: [{ files: ['a.json'] }] }],
    ['an unknown module', { params: { module: ['none'] } }],
  ])('are refused for %s, with the line in Prometheus’ file', async (_, job) => {
    const { code, out, err } = await read(prometheusOf(['192.0.2.1'], job))
    expect([code, out]).toEqual([2, ''])
    expect(err).toMatch(/^refused: \S+prometheus\.yml:\d+:\d+ {2}scrape_configs/m)
  })

  test('that no rule hands to the probe are refused, once each', async () => {
    const { code, err } = await read(prometheusOf(TWO, { relabel_configs: [] }))
    expect(code).toBe(2)
    const refused = err.match(/^refused: .*$/gm)
    expect(refused).toEqual(TWO.map(() => expect.stringContaining('__param_target') as string))
  })

  test('are of jobs that scrape a probe alone; without any there is nothing to import', async () => {
    const { code, err } = await read(prometheusOf(['a'], { metrics_path: '/metrics', params: {} }))
    expect([code, err]).toEqual([2, expect.stringContaining('has no target')])
  })
})
