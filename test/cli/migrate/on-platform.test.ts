// `vedette migrate` without a file compares and changes the monitors of a platform by its public API.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { changeRuntime } from '../../../src/cli/migrate/platform.ts'
import { applySettings } from '../../support/client/apply-command.ts'
import { useDatabase } from '../../support/database/database.ts'
import { namedRuntimes } from '../../support/platform/named-runtimes.ts'
import { startVedette } from '../../support/platform/platform-process.ts'
import {
  addClient,
  startPublicApi,
  type ApiClient,
  type PublicApi,
} from '../../support/platform/public-api.ts'
import { temporaryFile } from '../../support/temporary-folder.ts'

const tools = namedRuntimes('2024.09', '2026.04')
const database = useDatabase()
let api: PublicApi
let client: ApiClient

beforeAll(async () => {
  api = await startPublicApi(database().database, { defaultLimit: { limit: 1e8, windowS: 60 } })
})
afterAll(() => api.close())
beforeEach(async () => {
  client = await addClient(api, database().database)
  for (const slugName of ['berlin', 'oslo']) {
    await client.call('POST', '/v1/private-locations', { body: { name: slugName, slugName } })
  }
})

function migrate(args: readonly string[], env: Record<string, string> = {}) {
  const settings = { TOOLS_DIR: tools, ...applySettings(api, client), ...env }
  const both = ['--from', '2024.09', '--to', '2026.04']
  return startVedette(['migrate', ...both, ...args], settings).ended
}

async function add(name: string, body: Record<string, unknown>): Promise<string> {
  const whole = { name, privateLocations: ['berlin'], script: 'console.log(1)', ...body }
  const answer = await client.call('POST', '/v1/checks/multistep', { body: whole })
  expect(answer.status).toBe(201)
  return answer.body.id as string
}

async function addGroup(name: string): Promise<number> {
  const body = { name, runtimeId: '2024.09' }
  return (await client.call('POST', '/v1/check-groups', { body })).body.id as number
}

const runtimeOf = async (path: string) => (await client.call('GET', path)).body.runtimeId as string
const ownOf = (id: string) => runtimeOf(`/v1/checks/${id}`)

const secret = (key: string, value: string) => ({ key, value, secret: true })
const runtimeId = '2024.09'

test('secrets come from the environment, and a monitor with a missing one is not run and stays', async () => {
  await client.call('POST', '/v1/variables', { body: secret('ACCOUNT_TOKEN', 'kept-1') })
  const wants = (name: string) => `if (process.env.${name} !== 'value-1') throw new Error('bad')`
  const complete = await add('Complete', { runtimeId, script: wants('ACCOUNT_TOKEN') })
  const environmentVariables = [secret('OWN_TOKEN', 'kept-2')]
  const incomplete = await add('Incomplete', { runtimeId, environmentVariables })
  const file = temporaryFile('secrets.env', 'ACCOUNT_TOKEN=value-1\n')
  const { code, stdout, stderr } = await migrate(['--env-file', file, '--apply'])
  expect({ code, stderr }).toEqual({ code: 1, stderr: '' })
  expect(stdout).toMatch(/agrees +Complete +MULTI_STEP +passed .*passed/)
  expect(stdout).toMatch(/not run +Incomplete/)
  expect(stdout).toContain('set OWN_TOKEN or OWN_TOKEN_FILE in the environment')
  expect(stdout).not.toContain('value-1')
  expect([await ownOf(complete), await ownOf(incomplete)]).toEqual(['2026.04', '2024.09'])
  // The change did not affect the stored secrets.
  const { code: again } = await migrate(['--apply'], { OWN_TOKEN: 'value-2' })
  expect(again).toBe(0)
  expect(await ownOf(incomplete)).toBe('2026.04')
})

test('a group moves when all of its monitors were run here and agree', async () => {
  const [whole, apart] = [await addGroup('Whole'), await addGroup('Apart')]
  await add('A', { groupId: whole })
  await add('B', { groupId: whole })
  await add('C', { groupId: apart })
  await add('D', { groupId: apart, privateLocations: ['oslo'] })
  const { code, stdout } = await migrate(['--location', 'berlin', '--apply'])
  expect(code).toBe(0)
  expect(stdout).toContain('3 agree (3 monitors on 2024.09)')
  expect(stdout).toContain('the group “Whole” is now 2026.04')
  expect(stdout).toContain('the group “Apart” stays 2024.09: “D” inherits it from there')
  const paths = [whole, apart].map((id) => `/v1/check-groups/${id}`)
  expect(await Promise.all(paths.map(runtimeOf))).toEqual(['2026.04', '2024.09'])
})

test('an unknown location, and a key without permission, are reported', async () => {
  const { code, stderr } = await migrate(['--location', 'rome'])
  expect([code, stderr]).toEqual([2, expect.stringContaining('berlin, oslo')])
  const wrong = await migrate([], { VEDETTE_API_KEY: 'wrong' })
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('check VEDETTE_API_KEY')])
  const away = await migrate([], { PLATFORM_URL: 'http://127.0.0.1:1' })
  expect(away.code).toBe(3)
})

test('a monitor that has changed since it was read stays as it is', async () => {
  const id = await add('Moving', { runtimeId })
  const path = `/v1/checks/${id}`
  const { updated_at: readAt } = (await client.call('GET', path)).body as { updated_at: string }
  await client.call('PATCH', path, { body: { script: 'console.log(2)' } })
  const { accountId, secret: apiKey } = client
  const target = { platformUrl: api.url, accountId, apiKey, proxyUrl: undefined, noProxy: [] }
  const calls = { target, signal: new AbortController().signal }
  const move = { from: '2024.09', to: '2026.04' }
  expect(await changeRuntime(calls, path, move, readAt)).toContain('has changed')
  expect(await ownOf(id)).toBe('2024.09')
})
