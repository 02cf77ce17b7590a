// Aim: the host of scripts reports at the start what its settings name and the machine does not have.
import { expect, test } from 'vitest'
import { readAgentConfig } from '../../src/agent/config.ts'
import { scriptHost } from '../../src/cli/script-host.ts'
import { collectingLog } from '../support/collecting-log.ts'
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
