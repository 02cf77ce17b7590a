// `vedette import` writes all or nothing, unless it is asked for a part; secrets stay out of what it prints.
import { readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { expect, test } from 'vitest'
import type { AnyMonitorType } from '../../../src/monitors/monitor.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import { imported } from '../../support/cli/imported-file.ts'
import { checkMonitor } from '../../support/monitors/check-monitor.ts'
import { echoing } from '../../support/monitors/tcp-servers.ts'
import { startHttpServer, startRawServer } from '../../support/test-server.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const SECRET = 'hidden-in-the-source'
const good = { name: 'A', url: 'icmp://a.example', conditions: ['[CONNECTED] == true'] }
const bad = { name: 'B', url: 'udp://a.example:1', conditions: ['[CONNECTED] == true'] }
const secret = {
  name: 'C',
  url: 'https://c.example/',
  headers: { Authorization: `Bearer ${SECRET}` },
  conditions: ['[STATUS] == 200'],
}
const OWN = 'monitors:\n  - {name: A, type: URL, request: {url: "http://a.example/"}}\n'
const WIRE = OWN.replace('type', 'checkType')
const gatus = (...endpoints: object[]) => ({ 'gatus.yaml': stringify({ endpoints }) })

test('nothing is written where something is refused; --partial writes the rest', async () => {
  const whole = await imported({ files: gatus(good, bad) })
  expect([whole.code, whole.out]).toEqual([2, ''])
  expect(whole.err).toMatch(/^refused: \S+gatus\.yaml:\d+:\d+ {2}endpoints\[1\]\.url: /m)
  const part = await imported({ files: gatus(good, bad), options: { partial: true } })
  expect([part.code, part.monitors.map(({ name }) => name)]).toEqual([0, ['A']])
})

test.each([
  ['', 'C_AUTHORIZATION'],
  ['-$SUFFIX', 'with variables to put in'],
])('a secret, partly a variable or not (%s), is shown nowhere', async (more, said) => {
  const headers = { Authorization: `Bearer ${SECRET}${more}` }
  const { code, out, err, secrets } = await imported({ files: gatus({ ...secret, headers }) })
  expect([code, secrets]).toEqual([0, ['C_AUTHORIZATION']])
  expect(`${out}${err}`).not.toContain(SECRET)
  expect(err).toContain(said)
})

test('a monitor that validate would not take is refused at its place in the source, without its values', async () => {
  const { code, err } = await imported({ files: gatus({ ...secret, url: `https://${SECRET} /` }) })
  expect(code).toBe(2)
  expect(err).toMatch(/^refused: \S+gatus\.yaml:2:\d+ {2}endpoints\[0\]: request\.url/m)
  expect(err).not.toContain(SECRET)
})

test('equal names get ids of their own', async () => {
  const { monitors } = await imported({ files: gatus(good, good, { ...good, name: 'a' }) })
  expect(monitors.map(({ id }) => id)).toEqual(['a', 'a-2', 'a-3'])
})

test('--output writes a new file, and never over an old one', async () => {
  const output = join(temporaryFolder(), 'monitors.yaml')
  const files = gatus(good)
  expect(await imported({ files, options: { output } })).toMatchObject({ code: 0, out: '' })
  expect(readFileSync(output, 'utf8')).toContain('name: A')
  const again = await imported({ files, options: { output } })
  expect(again).toMatchObject({ code: 2, out: '' })
  expect(again.err).toContain(`${output} cannot be written: it exists already; name a new file`)
})

test.each([
  ['a folder that does not exist', 'none/m.yaml', 'its folder does not exist'],
  ['a link to nothing', 'link.yaml', 'it exists already'],
])('--output in %s is refused by its path', async (_, name, why) => {
  const folder = temporaryFolder()
  symlinkSync('/nowhere.yaml', join(folder, 'link.yaml'))
  const output = join(folder, name)
  const { code, out, err } = await imported({ files: gatus(good), options: { output } })
  expect([code, out, err]).toEqual([
    2,
    '',
    expect.stringContaining(`${output} cannot be written: ${why}; `),
  ])
})

test('--targets is refused where no targets are read', async () => {
  const options = { targets: 'prometheus.yml' }
  expect(await imported({ files: gatus(good), options })).toMatchObject({ code: 2, out: '' })
})

test.each([
  ['90s', 'the next shorter interval'],
  ['500ms', 'the shortest interval'],
])('the note on an interval of %s says which one it becomes', async (interval, expected) => {
  const { err } = await imported({ files: gatus({ ...good, interval }) })
  expect(err).toContain(expected)
})

test('the note on a time-out, also on a default, says from what it becomes what', async () => {
  const dns = { 'query-name': 'a.example', 'query-type': 'A' }
  const shorter = await imported({ files: gatus({ ...good, url: '192.0.2.53', dns }) })
  expect(shorter.err).toMatch(/^note: .* 10 s becomes 5 s, the longest of DNS monitors$/m)
  const monitors = [{ name: 'A', type: 'http', url: 'http://a.example/', interval: 60 }]
  const { err, monitors: written } = await imported({
    files: { 'kuma.json': JSON.stringify(monitors) },
  })
  expect(err).toMatch(
    /^note: \S+kuma.json:1:\d+ .* 48 s becomes 45 s, the longest of API monitors$/m,
  )
  expect(written).toMatchObject([{ maxResponseTime: 45_000 }])
})

test('--from decides what the file looks like in vain', async () => {
  const files = { 'a.yaml': stringify({ 'x-endpoints': [], endpoints: [] }) }
  expect(await imported({ files, options: { from: 'uptime-kuma' } })).toMatchObject({ code: 2 })
  const options = { from: 'gatus' }
  expect(await imported({ files: gatus(good), options })).toMatchObject({ code: 0 })
  const prometheus = { 'prometheus.yml': 'scrape_configs: []' }
  expect(await imported({ files: prometheus, options })).toMatchObject({ code: 2 })
})

test.each([
  ['a folder', {}, 'is a folder'],
  ['Prometheus’ file alone', { 'prometheus.yml': 'scrape_configs: []' }, '--targets'],
  ['modules without targets', { 'blackbox.yml': 'modules: { m: { prober: icmp } }' }, '--targets'],
  [
    'an unknown file',
    { 'a.yaml': 'a: 1' },
    'a.yaml is not a file of blackbox, gatus, uptime-kuma: ',
  ],
  ['a text', { 'a.yaml': 'nothing' }, 'neither a mapping'],
  ['a broken file', { 'a.yaml': 'a: [' }, 'a.yaml:1:'],
  ['a monitors file', { 'a.yaml': OWN }, 'a.yaml is a monitors file already; '],
  ['a monitors file in the wire form', { 'a.yaml': WIRE }, 'a.yaml is a monitors file already; '],
])('%s is refused, with the page of the manual', async (_, files, expected) => {
  const { code, out, err } = await imported({ files })
  expect([code, out, err]).toEqual([2, '', expect.stringContaining(expected)])
  expect(err.endsWith('\nSee: vedette help coming-from\n')).toBe(true)
})

test.each([
  [
    'a tool that there is not',
    'kuma',
    /: --from must be one of blackbox, gatus, uptime-kuma \(got "kuma"\)\n/,
  ],
  ['another tool', 'uptime-kuma', /gatus.yaml is not a file of uptime-kuma: it is one of gatus; /],
])('--from with %s is refused', async (_, from, expected) => {
  const { code, err } = await imported({ files: gatus(good), options: { from } })
  expect([code, err]).toEqual([2, expect.stringMatching(expected)])
  expect(err).not.toMatch(/^(?:note|refused): /m)
})

test('the page shows what an import writes', async () => {
  const page = readFileSync(new URL('../../../src/cli/import/README.md', import.meta.url), 'utf8')
  const [source = '', expected = ''] = [...page.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(
    ([, text]) => text,
  )
  const { out } = await imported({ files: { 'gatus.yaml': source } })
  expect(out.replace(/^#.*\n/, '')).toBe(expected)
})

test('imported monitors find what the source’s conditions say', async () => {
  await using web = await startHttpServer((_, response) => {
    response.setHeader('X-Served-By', 'a1')
    response.end('{"status": "UP", "items": [1, 2]}')
  })
  await using redis = await startRawServer(echoing)
  const endpoint = (name: string, url: string, ...conditions: string[]) => ({
    name,
    url,
    conditions,
  })
  const page = `http://${web.authority}/`
  const files = gatus(
    endpoint('good', page, '[STATUS] < 300', '[BODY].status == UP', 'len([BODY].items) == 2'),
    endpoint('pattern', page, '[BODY].status == any(UP, OK)', '[BODY] == pat(*UP*)'),
    endpoint('bad', page, '[STATUS] == 404'),
    endpoint('empty', page, 'has([BODY].items) == false'),
    { ...endpoint('redis', `tcp://${redis.authority}`, '[BODY] == pat(*PING*)'), body: 'PING' },
  )
  const { monitors } = await imported({ files })
  const codes = monitors.map(async ({ checkType, name, ...more }) => {
    const type = MONITOR_TYPES.get(checkType) as AnyMonitorType
    const result = await checkMonitor(type, more['request'] as object, { ...more, name })
    return [name, result.codes]
  })
  expect(Object.fromEntries(await Promise.all(codes))).toEqual({
    good: [],
    pattern: [],
    bad: ['ASSERTION_FAILED'],
    empty: ['ASSERTION_FAILED'],
    redis: [],
  })
})
