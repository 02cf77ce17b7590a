// Aim: the image for migrations has both runtimes: a script runs on the one that it names.
import { execFile } from 'node:child_process'
import { chownSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { agentIn, platformFor } from '../support/container/contained-agent.ts'
import { startContainer } from '../support/container/contained.ts'
import { needImages, tagOf } from '../support/container/images.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

needImages('agent', 'agent-migrate')

const RUNTIMES = ['2024.09', '2026.04']
const SCRIPT = `
const { test, expect } = require('@playwright/test')
test('one request', async ({ request }) => {
  expect((await request.get('http://127.0.0.1:8081/health')).status()).toBe(200)
})`

test('the image of the agent names the image for migrations, where an older runtime is requested', async () => {
  const agent = await startContainer({
    image: 'agent',
    network: 'none',
    command: ['runtime', 'install', '2024.09'],
  })
  expect(await agent.ended).toBe(1)
  expect(agent.said()).toContain(tagOf('agent-migrate').split(':')[1])
})

describe('the image for migrations', () => {
  test('moves the script in the file of an ordinary user, by the line of the page', async ({
    skip,
  }) => {
    skip(process.getuid?.() !== 0, 'needs root, to give a file to another user')
    const page = readFileSync(join(import.meta.dirname, '../../docker/README.md'), 'utf8')
    const [said = ''] = /^docker run .*\n.* migrate .*--apply$/m.exec(page) ?? []
    const folder = temporaryFolder()
    const path = join(folder, 'monitors.yaml')
    const script = "require('@playwright/test').test('nothing', () => {})"
    const monitor = `{ name: A, type: MULTI_STEP, every: 10m, runtimeId: '2024.09', script: "${script}" }`
    writeFileSync(path, `monitors:\n  - ${monitor}\n`)
    for (const own of [folder, path]) chownSync(own, 1000, 1000)
    const line = said.replace('$(id -u):$(id -g)', '1000:1000')
    expect(line).not.toBe(said)
    await promisify(execFile)('sh', ['-c', line], { cwd: folder })
    expect(readFileSync(path, 'utf8')).toContain("runtimeId: '2026.04'")
    expect(statSync(path)).toMatchObject({ uid: 1000, gid: 1000 })
  })

  test('runs a script on the old and on the new runtime', async () => {
    const { network, platform } = await platformFor()
    platform.give(
      RUNTIMES.map((runtimeId) => ({
        checkType: 'MULTI_STEP',
        script: SCRIPT,
        runtimeId,
        frequency: 1,
        frequencyOffset: undefined,
        request: undefined,
      })),
    )
    const agent = await agentIn(network, platform, { image: 'agent-migrate' })
    for (const at of ['0', '1']) {
      const result = await platform.result(({ monitorId }) => monitorId.endsWith(at))
      expect(result).toMatchObject({ verdict: 'passed' })
    }
    expect(platform.syncs[0]?.agent.runtimes.toSorted()).toEqual(RUNTIMES)
    expect(await agent.stop()).toMatchObject({ code: 0 })
  })
})
