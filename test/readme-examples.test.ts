// Aim: the monitors on the manual pages are valid, and run: each passes on a target that is as it should be, and has a
// result of the form that its page shows.
import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parse, stringify } from 'yaml'
import { beforeAll, describe, expect, test } from 'vitest'
import { readFileToApply, readMonitorsFile } from '../src/agent/monitors-file/file.ts'
import type { Result } from '../src/contract/result.ts'
import { DEFINED_TYPES } from '../src/monitors/definitions.ts'
import { MONITOR_TYPES } from '../src/monitors/registry.ts'
import { startExampleTargets } from './support/example-targets.ts'
import { withoutEchoes } from './support/needs.ts'
import { blocksOf, chapter, hasForm, page, pageOf, pages } from './support/pages.ts'
import { startVedette } from './support/platform/platform-process.ts'
import { temporaryFile } from './support/temporary-folder.ts'

type Fields = Record<string, unknown>

const SECRETS = { API_TOKEN: 'secret-token', PROXY_PASSWORD: 'secret-password' }

/** Types whose examples are only validated here, with the reason. */
const NOT_RUN: Record<string, string> = {
  BROWSER: 'needs Chromium: readme-scripts.full.test.ts',
  MULTI_STEP: 'needs a runtime: readme-scripts.full.test.ts',
  PLAYWRIGHT: 'needs an engine and a project: readme-scripts.full.test.ts',
  HEARTBEAT: 'runs on a platform: readme-platform.test.ts',
}

/** Monitors that are only validated, by name, with the reason. */
const NOT_RUN_BY_NAME: Record<string, string> = {
  'Resolver over TLS validates': 'needs a resolver that validates: test/monitors/dns asks unbound',
}

const files = [...pages].flatMap(([path, text]) =>
  blocksOf('yaml', text)
    .filter((yaml) => /^monitors:$/m.test(yaml))
    .map((yaml, index) => ({ name: `${path} ${index + 1}`, yaml })),
)

test.each(files)('$name is valid', async ({ yaml }) => {
  const file = temporaryFile('monitors.yaml', yaml)
  mkdirSync(join(dirname(file), 'e2e'), { recursive: true })
  const isPinged = yaml.includes('type: HEARTBEAT')
  const read = isPinged
    ? await readFileToApply(file, SECRETS)
    : await readMonitorsFile(file, SECRETS, MONITOR_TYPES)
  expect(read).toMatchObject({ ok: true })
})

describe('run', () => {
  const echoes = withoutEchoes()
  const isRun = (monitor: Fields) =>
    NOT_RUN[String(monitor['type'])] === undefined &&
    NOT_RUN_BY_NAME[String(monitor['name'])] === undefined &&
    // readme-scripts.full.test.ts runs these.
    monitor['localSetupScript'] === undefined &&
    (monitor['type'] !== 'ICMP' || echoes === undefined)

  const parts = files.map(({ yaml }) => parse(yaml) as Fields & { monitors: Fields[] })
  const monitors = parts.flatMap((one) => one.monitors).filter(isRun)
  const refused = { name: 'Refused', type: 'TCP', request: { hostname: '127.0.0.1', port: 1 } }
  const results: Result[] = []

  beforeAll(async () => {
    await using targets = await startExampleTargets()
    const together = (key: string) => Object.assign({}, ...parts.map((one) => one[key])) as Fields
    const file = temporaryFile(
      'monitors.yaml',
      stringify({
        secrets: Object.keys(SECRETS),
        variables: together('variables'),
        groups: together('groups'),
        monitors: [
          ...monitors.map((one, index) => ({ ...targets.aimed(one), id: `m${index}` })),
          refused,
        ],
      }),
    )
    const env = { ...SECRETS, NODE_EXTRA_CA_CERTS: temporaryFile('ca.pem', targets.ca) }
    const { stdout, stderr } = await startVedette(['check', file, '--json'], env).ended
    if (stderr !== '') throw new Error(stderr)
    results.push(
      ...stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as Result),
    )
  })

  test('they all pass', () => {
    expect(results).toHaveLength(monitors.length + 1)
    const others = results.filter(({ verdict }) => verdict !== 'passed')
    expect(others.map(({ monitorName }) => monitorName)).toEqual([refused.name])
  })

  const types = DEFINED_TYPES.filter((type) => NOT_RUN[type] === undefined)
  test.each(types)('the page of %s shows the result of a run', (type) => {
    if (type === 'ICMP' && echoes !== undefined) return
    const shown = blocksOf('json', chapter(page(pageOf(type)), 'Result') ?? '')
    expect(shown.length).toBeGreaterThan(0)
    const real = results.filter(({ checkType }) => checkType === type)
    const unlike = shown.filter((json) => !real.some((one) => hasForm(JSON.parse(json), one)))
    expect(unlike).toEqual([])
  })

  test('the page of failure codes shows a result that failed', () => {
    const [shown = ''] = blocksOf('json', page('src/contract/README.md'))
    const real = results.find(({ monitorName }) => monitorName === refused.name)
    expect(hasForm(JSON.parse(shown), real)).toBe(true)
    expect(JSON.parse(shown)).toMatchObject({ failures: [{ code: real?.failures[0]?.code }] })
  })
})
