// Secrets of monitor, group and account are planted in everything that user code can write, in every spelling,
// and in headers on the wire: no byte that leaves the agent or a command holds one.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ZipFile } from 'yazl'
import { eventually } from '../support/eventually.ts'
import { forbidden, type Leak, leaksIn, SPELLINGS_CODE } from '../support/agent/planted-secrets.ts'
import { startVedette } from '../support/platform/platform-process.ts'
import { unpackedBody } from '../support/agent/delivery/faulty-proxy.ts'
import { installPlaywright, ScriptFleet } from '../support/scripts/script-fleet.ts'
import { projectFolder } from '../support/scripts/script-host.ts'
import { startHttpServer, type TestServer } from '../support/test-server.ts'

/** Secret or locked variables, by their name in scripts. */
const VARIABLES = {
  OF_MONITOR: 'Mon"it&or/S3cret+<1>=',
  OF_GROUP: 'gr0up key: {x} at 50% é',
  OF_ACCOUNT: 'acc0unt.S3cret_99',
}
const LINES = '-----BEGIN KEY-----\nMIIfirstLineOfTheKey0\nsecondLineOfIt77\n-----END KEY-----\n'
/** Values that only the names of their headers mark as secret. */
const ON_THE_WIRE = {
  cookie: 'sess10n-cookie-value',
  bearer: 'bearer-t0ken-of-header',
  key: 'x-api-key-value-77',
  password: 'b4sic-passw0rd-in-url',
}

let scene: ScriptFleet
let site: TestServer
let needles: string[]

beforeAll(async () => {
  site = await startHttpServer((request, response) => {
    response.setHeader('set-cookie', `session=${ON_THE_WIRE.cookie}; Path=/; HttpOnly`)
    response.setHeader('x-api-key', ON_THE_WIRE.key)
    response.setHeader('content-type', 'text/html')
    response.end(`<h1>Shop</h1><p>${String(request.headers['x-echo'])}</p>`)
  })
  scene = await ScriptFleet.start({ recordsBodies: true, env: { JOB_CONCURRENCY: '2' } })
  const secrets = [...Object.values(VARIABLES), ...Object.values(ON_THE_WIRE)]
  const lines = LINES.split('\n').slice(1, 3)
  needles = [...secrets.flatMap(forbidden), ...lines, scene.location.key]
})
afterAll(async () => {
  await scene.close()
  await site.close()
})

const siteUrl = () => `http://${site.authority}`

/** Code of every script: writes all secrets in all spellings to consoles and files, in pieces and whole. */
const PLANT = `
${SPELLINGS_CODE}
const { OF_MONITOR, OF_GROUP, OF_ACCOUNT, OF_LINES } = process.env
const all = [OF_MONITOR, OF_GROUP, OF_ACCOUNT].filter(Boolean).flatMap(spellings)
const wire = ${JSON.stringify(ON_THE_WIRE)}
const headers = { authorization: 'Bearer ' + wire.bearer, 'x-api-key': wire.key, 'x-echo': OF_ACCOUNT }
async function plant() {
  console.log(all.join('\\n'))
  console.error(JSON.stringify({ all }))
  console.log(OF_LINES)
  for (const one of all) {
    process.stdout.write(one.slice(0, 3))
    await new Promise((resolve) => setTimeout(resolve, 2))
    process.stdout.write(one.slice(3) + '\\n')
  }
  console.log('x'.repeat(1990) + OF_MONITOR)
}
`

/** A zip in a zip in a zip, and a gzip in a gzip, with all secrets in them. */
async function packedFiles(): Promise<Record<string, Buffer>> {
  const plain = Buffer.from(`${Object.values(VARIABLES).flatMap(forbidden).join('\n')}\n`, 'latin1')
  let nested = plain
  for (const name of ['deep.txt', 'inner.zip', 'middle.zip']) {
    const zip = new ZipFile()
    zip.addBuffer(nested, name)
    zip.end()
    nested = await buffer(zip.outputStream)
  }
  return { 'nested.zip': nested, 'twice.gz': gzipSync(gzipSync(plain)) }
}

const SUITE_SPEC = `
const { test, expect } = require('@playwright/test')
const { copyFileSync, writeFileSync } = require('fs')
${PLANT}
test('shop of ' + OF_ACCOUNT + ' and ' + OF_MONITOR, async ({ browser }, info) => {
  await plant()
  const har = info.outputPath('net.har')
  const context = await browser.newContext({ recordHar: { path: har, content: 'embed' }, extraHTTPHeaders: headers })
  const page = await context.newPage()
  await test.step('look at ' + OF_GROUP, () => page.goto('{site}/?q=' + encodeURIComponent(OF_MONITOR)))
  await page.goto('{site}/again')
  await page.evaluate((texts) => {
    for (const one of texts) console.log(one)
    document.body.append(texts.join(' '))
    setTimeout(() => { throw new Error('page ' + texts.join(' ')) }, 0)
  }, all)
  await page.screenshot({ path: info.outputPath('screen.png') })
  await context.close()
  await info.attach('har of ' + OF_ACCOUNT, { path: har })
  await info.attach('json', { body: JSON.stringify({ all, headers, deep: JSON.stringify({ all }) }), contentType: 'application/json' })
  const named = info.outputPath('report-' + OF_ACCOUNT + '.txt')
  writeFileSync(named, Buffer.from(all.join('\\n')).toString('base64').replace(/.{76}/g, '$&\\n'))
  await info.attach('text ' + OF_ACCOUNT, { path: named })
  for (const name of ['nested.zip', 'twice.gz']) {
    copyFileSync(name, info.outputPath(name))
    await info.attach(name, { path: info.outputPath(name) })
  }
  throw new Error('it failed with ' + all.join(' '))
})
`

const SUITE_FILES = async (): Promise<Record<string, string | Buffer>> => ({
  'package.json': '{"name":"shop-tests"}',
  'playwright.config.js': `module.exports = { retries: 0, workers: 1, reporter: [['list'], ['json', { outputFile: 'own.json' }]],
    use: { trace: 'on', screenshot: 'on', extraHTTPHeaders: { authorization: 'Bearer ${ON_THE_WIRE.bearer}' } } }`,
  'shop.spec.js': SUITE_SPEC.replaceAll('{site}', siteUrl()),
  ...(await packedFiles()),
})

const browserScript = () => `
const { chromium } = require('playwright')
${PLANT}
;(async () => {
  await plant()
  const browser = await chromium.launch()
  const page = await browser.newPage({ extraHTTPHeaders: headers })
  await page.goto('${siteUrl()}/?q=' + encodeURIComponent(OF_MONITOR))
  await page.evaluate((texts) => { for (const one of texts) console.log(one) }, all)
  await browser.close()
  throw new Error('it failed with ' + all.join(' '))
})()`

const multistepScript = () => `
const { test } = require('@playwright/test')
${PLANT}
test('api of ' + OF_GROUP, async ({ request }) => {
  await plant()
  await test.step('get ' + OF_ACCOUNT, () =>
    request.get('http://user:${ON_THE_WIRE.password}@${site.authority}/', { headers }))
  throw new Error(all.join(' '))
})`

const apiRequest = () => ({
  method: 'POST',
  url: `${siteUrl()}/?q={{OF_MONITOR}}`,
  headers: [
    { key: 'Authorization', value: `Bearer ${ON_THE_WIRE.bearer}` },
    { key: 'X-Echo', value: '{{OF_ACCOUNT}}' },
  ],
  basicAuth: { username: 'user', password: ON_THE_WIRE.password },
  body: '{{OF_MONITOR}} {{OF_ACCOUNT}}',
  bodyType: 'RAW',
  assertions: [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '500' }],
})

const secretVariables = (names: readonly (keyof typeof VARIABLES)[]) =>
  names.map((key) => ({ key, value: VARIABLES[key], secret: key !== 'OF_GROUP', locked: true }))

function expectNone(leaks: readonly Leak[]): void {
  expect(
    leaks.slice(0, 12).map(({ where, found }) => `${where}: ${JSON.stringify(found)}`),
  ).toEqual([])
}

/** Every file below a folder. */
function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())
}

async function leaksOnDisk(folder: string): Promise<Leak[]> {
  const all: Leak[] = []
  for (const path of filesBelow(folder))
    all.push(...(await leaksIn(path, readFileSync(path), needles)))
  return all
}

test('nothing that leaves an agent contains a secret', async () => {
  const { fleet, proxy, agent } = scene
  const [ofAccount] = secretVariables(['OF_ACCOUNT'])
  await fleet.api('POST', '/v1/variables', ofAccount)
  const { id: groupId } = await fleet.api<{ id: number }>('POST', '/v1/check-groups', {
    name: 'the shop',
    locations: [],
    privateLocations: ['cellar'],
    environmentVariables: secretVariables(['OF_GROUP']),
  })
  const lines = { key: 'OF_LINES', value: LINES, secret: true, locked: true }
  const common = {
    groupId,
    environmentVariables: [...secretVariables(['OF_MONITOR']), lines],
  }
  const ids = [
    await scene.suite(await SUITE_FILES(), common),
    await scene.monitor('BROWSER', { ...common, script: browserScript() }),
    await scene.monitor('MULTI_STEP', { ...common, script: multistepScript() }),
    await scene.monitor('API', { ...common, request: apiRequest() }),
  ]
  const asked = await Promise.all(ids.map(async (id) => [id, await scene.ask(id)] as const))
  for (const [id, run] of asked) {
    const { verdict, result } = await scene.finished(id, run, 200_000)
    // They failed as intended, which proves that they ran to their end.
    expect([verdict, result?.failures]).toEqual(['failed', expect.anything()])
    expect(JSON.stringify(result)).toContain('[scrubbed]')
  }
  const [suiteId, suiteRun] = asked[0] ?? ['', '']
  const { artifacts } = await eventually(
    async () => {
      const run = await scene.run(suiteId, suiteRun)
      return run.artifacts.every(({ state }) => state === 'stored') && run
    },
    { what: 'all files' },
  )
  const names = artifacts.map(({ name }) => name).join(' ')
  for (const one of [
    'results.json',
    'junit.xml',
    'playwright-report.zip',
    'trace.zip',
    'har',
    'nested',
    'twice',
  ]) {
    expect(names).toContain(one)
  }

  const leaks: Leak[] = []
  for (const one of proxy.requests) {
    const where = `${one.method} ${decodeURIComponent(one.path)}`
    const { authorization: _, ...headers } = one.headers
    leaks.push(
      ...(await leaksIn(`${where} head`, Buffer.from(where + JSON.stringify(headers)), needles)),
    )
    leaks.push(...(await leaksIn(where, unpackedBody(one), needles)))
  }
  const log = agent.lines.map((line) => JSON.stringify(line)).join('\n')
  leaks.push(...(await leaksIn('log', Buffer.from(log), needles)))
  const started = agent.lines.find(({ msg }) => msg === 'agent started')
  const metrics = await (await fetch(`${String(started?.['url'])}/metrics`)).text()
  leaks.push(...(await leaksIn('metrics', Buffer.from(metrics), needles)))
  // The other files are bundles of the platform, which contain the planting code.
  for (const own of ['agents', 'work']) {
    leaks.push(...(await leaksOnDisk(join(scene.dataFolder, own))))
  }
  agent.child.kill('SIGTERM')
  const { stderr } = await agent.ended
  leaks.push(...(await leaksIn('stderr', Buffer.from(stderr), needles)))
  expectNone(leaks)
})

test('no output or file of a command contains a secret', async () => {
  const variables = Object.entries({ ...VARIABLES, OF_LINES: LINES })
  const env = {
    ...Object.fromEntries(variables),
    TOOLS_DIR: scene.tools,
    SCRIPT_USER_ID: '90000',
    DATA_DIR: join(projectFolder({ 'package.json': '{}' }), 'data'),
  }
  const monitors = [
    { id: 'api', name: 'api', type: 'API', every: '10m', request: apiRequest() },
    { id: 'web', name: 'web', type: 'BROWSER', every: '10m', script: browserScript() },
  ]
  const folder = projectFolder({
    'monitors.yaml': JSON.stringify({
      secrets: Object.keys(VARIABLES).concat('OF_LINES'),
      monitors,
    }),
    'tests/env': variables.map(([key, value]) => `${key}='${value}'`).join('\n'),
    ...Object.fromEntries(
      Object.entries(await SUITE_FILES()).map(([name, one]) => [`tests/${name}`, one]),
    ),
  })
  const file = join(folder, 'monitors.yaml')
  const tests = join(folder, 'tests')
  const output = join(projectFolder({ 'package.json': '{}' }), 'output')
  const suite = ['test', tests, '--engine', 'node@24', '--env-file', join(tests, 'env')]
  const install = installPlaywright(scene.tools).replaceAll(
    'node_modules',
    join(tests, 'node_modules'),
  )
  const { execFileSync } = await import('node:child_process')
  execFileSync('/bin/sh', ['-c', install])
  const commands = [
    ['check', file, '--json'],
    ['check', file, '--junit'],
    [...suite, '--output', output, '--json', '--junit', join(output, 'own.xml')],
    [...suite, '--output', output],
  ]
  const leaks: Leak[] = []
  for (const command of commands) {
    const { code, stdout, stderr } = await startVedette(command, env).ended
    expect([command[0], code, stderr]).toEqual([command[0], 1, expect.anything()])
    leaks.push(...(await leaksIn(command.join(' '), Buffer.from(stdout + stderr), needles)))
  }
  expect(readdirSync(output)).toEqual(
    expect.arrayContaining(['results.json', 'own.xml', 'junit.xml']),
  )
  expectNone([...leaks, ...(await leaksOnDisk(output))])
})
