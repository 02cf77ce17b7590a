// Aim: a missing, mistyped, unknown or revoked key ends an image with one clear line and an exit code that says whether
// to restart; a key from a file works like one from the environment.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { startContainer, type Contained } from '../support/container/contained.ts'
import { createNetwork } from '../support/container/container-engine.ts'
import { startPlatformContainer } from '../support/container/contained-platform.ts'
import { eventually } from '../support/eventually.ts'
import { needImages } from '../support/container/images.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

needImages('agent-uptime', 'platform')
const PLATFORM_URL = 'https://platform.test'
const UNKNOWN_KEY = 'pl_nobody_knows_this_key_0123456789'

const textOf = ({ lines }: Contained) => lines.map(({ text, msg }) => text ?? msg).join('\n')

describe('invalid settings', () => {
  test.each([
    ['no settings at all', {}, 'MONITORS_FILE is not set'],
    ['no key', { PLATFORM_URL, API_KEY: 's3cret' }, 'private location key, pl_…'],
    ['no such file', { PLATFORM_URL, API_KEY_FILE: '/run/key' }, 'does not exist'],
  ])('%s: one clear line, exit code 2', async (_, env: Record<string, string>, line) => {
    const agent = await startContainer({ image: 'agent-uptime', network: 'none', env })
    expect(await agent.ended).toBe(2)
    expect(textOf(agent)).toContain(line)
    expect(textOf(agent)).not.toContain('s3cret')
    expect(agent.lines.length).toBeLessThan(4)
  })

  test('the platform in an image of the agent: the error names the image that has one', async () => {
    const command = ['platform']
    const agent = await startContainer({ image: 'agent-uptime', network: 'none', command })
    expect(await agent.ended).toBe(2)
    expect(textOf(agent)).toContain('use the image vedette/platform')
  })
})

describe('keys at a platform', () => {
  test('an unknown one: not ready, logged, and ended by docker stop alone', async () => {
    const { name: network } = await createNetwork()
    const { url } = await startPlatformContainer(network)
    const env = { PLATFORM_URL: url, API_KEY: UNKNOWN_KEY }
    const agent = await startContainer({ image: 'agent-uptime', network, env })
    await agent.line(({ msg }) => msg?.includes('does not accept API_KEY') === true)
    const { status, text } = await agent.probe('/-/readiness')
    expect([status, text]).toEqual([503, expect.stringContaining('does not accept API_KEY')])
    expect((await agent.probe('/-/liveness')).status).toBe(200)
    expect(await agent.stop()).toMatchObject({ code: 0 })
    expect(agent.said()).not.toContain(UNKNOWN_KEY)
  })

  test('one from API_KEY_FILE works; after its revocation the agent ends with exit code 3', async () => {
    const { name: network } = await createNetwork()
    const platform = await startPlatformContainer(network)
    const location = await platform.createLocation('cellar')
    const source = join(temporaryFolder(), 'api-key')
    writeFileSync(source, `${location.key}\n`, { mode: 0o644 })
    const agent = await startContainer({
      image: 'agent-uptime',
      network,
      env: { PLATFORM_URL: platform.url, API_KEY_FILE: '/run/secrets/api-key' },
      files: { '/run/secrets/api-key': source },
    })
    await eventually(async () => (await agent.probe('/-/readiness')).status === 200)
    await platform.api('DELETE', `/v1/private-locations/${location.id}/keys/${location.keyId}`)
    expect(await agent.ended).toBe(3)
    expect(textOf(agent)).toContain('API_KEY was revoked')
    expect(agent.said()).not.toContain(location.key)
    expect(await platform.stop()).toMatchObject({ code: 0 })
  })
})
