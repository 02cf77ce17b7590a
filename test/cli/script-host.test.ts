// Aim: the host of scripts reports at the start what its settings name and the machine does not have, and runs advise
// an installation only where one is possible.
import { expect, test } from 'vitest'
import { readAgentConfig } from '../../src/agent/config.ts'
import { scriptHost } from '../../src/cli/script-host.ts'
import { collectingLog } from '../support/collecting-log.ts'
import { missingTool, scriptRuntime } from '../../src/scripts/runtime.ts'
import { startVedette } from '../support/platform/platform-process.ts'
import { temporaryFile, temporaryFolder } from '../support/temporary-folder.ts'

test.each([
  ['is missing', () => '/nope', ['CHROMIUM_PATH']],
  ['is a folder', () => temporaryFolder(), ['CHROMIUM_PATH']],
  ['is a program', () => temporaryFile('chromium', '', 0o755), []],
])('a browser of CHROMIUM_PATH that %s', async (_, path, expected) => {
  const { log, lines } = collectingLog()
  const env = { MONITORS_FILE: 'x', CHROMIUM_PATH: path(), TOOLS_DIR: temporaryFolder() }
  const { config } = readAgentConfig({ env, stdout: {} })
  await scriptHost(config, { log }).prepare?.()
  expect(lines.flatMap((line) => /CHROMIUM_PATH/.exec(line) ?? [])).toEqual(expected)
})

test.each([
  ['agent', 'RUNTIME_MISSING', 'ENGINE_MISSING', 'install 2026.04'],
  ['agent-uptime', 'SCRIPT_UNSUPPORTED', 'SCRIPT_UNSUPPORTED', 'image vedette/agent'],
])('a script and a suite in the image %s without tools', async (image, script, suite, advice) => {
  const env = { MONITORS_FILE: 'x', VEDETTE_IMAGE: image, TOOLS_DIR: temporaryFolder() }
  const { tools } = scriptHost(readAgentConfig({ env, stdout: {} }).config)
  await expect(scriptRuntime(tools, '2026.04')).rejects.toMatchObject({
    failure: { code: script, message: expect.stringContaining(advice) as string },
  })
  expect(missingTool(tools, 'engine', 'node@24', {}).failure.code).toBe(suite)
})

test('a runtime is not installed in an image without npm', async () => {
  const env = { VEDETTE_IMAGE: 'agent-uptime', TOOLS_DIR: temporaryFolder() }
  const { code, stderr } = await startVedette(['runtime', 'install', '2026.04'], env).ended
  expect([code, stderr]).toEqual([2, expect.stringContaining('vedette/agent')])
})
