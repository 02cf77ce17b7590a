// Aim: a part that never answers costs `vedette doctor` its time limit and no more, and is named.
import { describe, expect, test } from 'vitest'
import { agentOf, examine, onFile } from '../../support/cli/doctor-process.ts'
import { startFakePlatform } from '../../support/agent/fake-platform.ts'
import { unresponsive } from '../../support/monitors/tcp-servers.ts'
import { startConnectProxy } from '../../support/network/connect-proxy.ts'
import { temporaryFile } from '../../support/temporary-folder.ts'
import { startRawServer } from '../../support/test-server.ts'

describe.concurrent('unresponsive', () => {
  test('is the platform', async () => {
    await using server = await startRawServer(unresponsive)
    const said = await examine({ env: agentOf(`http://${server.authority}`) })
    expect(said.code).toBe(1)
    const fix = expect.stringContaining('PLATFORM_URL') as string
    const facts = { code: 'TIMEOUT' }
    expect(said.found('platform')).toMatchObject({ standing: 'broken', facts, fix })
  })

  test('is the proxy', async () => {
    await using platform = await startFakePlatform()
    await using proxy = await startConnectProxy({ unresponsive: true })
    const HTTPS_PROXY = `http://${proxy.authority}`
    const agent = agentOf(platform.url.replace('http:', 'https:'))
    const said = await examine({ env: { ...agent, HTTPS_PROXY } })
    expect([said.code, said.found('proxy')?.standing]).toEqual([1, 'broken'])
  })

  test('is the program on the health port', async () => {
    await using platform = await startFakePlatform()
    await using other = await startRawServer(unresponsive)
    const env = { ...agentOf(platform.url), AGENT_HEALTH_PORT: String(other.port) }
    expect((await examine({ env })).found('health-port')?.standing).toBe('broken')
  })

  test('is the browser', async () => {
    const browser = temporaryFile('browser', '#!/bin/sh\nexec sleep 60\n', 0o755)
    const said = await examine({ env: { ...onFile('BROWSER'), CHROMIUM_PATH: browser } })
    expect([said.code, said.found('browser')?.standing]).toEqual([1, 'broken'])
    expect(said.found('browser')?.facts).toMatchObject({ outcome: 'out-of-time' })
  })
})
