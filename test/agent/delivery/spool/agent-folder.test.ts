// Folders of agents: locked in turn, with ids that last and files that only their key decrypts.
import {
  chmodSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import {
  openAgentFolder,
  type AgentFolder,
} from '../../../../src/agent/delivery/spool/agent-folder.ts'
import { createAgentCipher } from '../../../../src/agent/delivery/spool/agent-cipher.ts'
import { FAKE_KEY } from '../../../support/agent/fake-platform.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'
import { untilHolds } from '../../../support/eventually.ts'

const open: AgentFolder[] = []
afterEach(() => {
  vi.unstubAllEnvs()
  for (const folder of open.splice(0)) folder.close()
})

async function opened(
  dataDir: string | undefined,
  apiKey = FAKE_KEY,
  onLost: () => void = () => undefined,
): Promise<AgentFolder> {
  const folder = await openAgentFolder({ dataDir, apiKey, onLost })
  open.push(folder)
  return folder
}

describe('folders', () => {
  test('two agents of one DATA_DIR get one each, and each has its id again after a restart', async () => {
    const dataDir = temporaryFolder()
    const [first, second] = [await opened(dataDir), await opened(dataDir)]
    const paths = ['agents/1', 'agents/2'].map((one) => join(dataDir, one))
    expect([first.path, second.path]).toEqual(paths)
    expect(first.id).not.toBe(second.id)
    first.close()
    first.close()
    expect((await opened(dataDir)).id).toBe(first.id)
  })

  test('only the user of the agent can read it', async () => {
    const { path = '' } = await opened(join(temporaryFolder(), 'not/there/yet'))
    const modes = ['.', '..', '../..', 'id'].map((name) => statSync(join(path, name)).mode & 0o777)
    expect(modes).toEqual([0o700, 0o700, 0o711, 0o600])
  })

  test('an id that is cut short is replaced', async () => {
    const dataDir = temporaryFolder()
    mkdirSync(join(dataDir, 'agents/1'), { recursive: true })
    writeFileSync(join(dataDir, 'agents/1/id'), '1234')
    const { id } = await opened(dataDir)
    expect(readFileSync(join(dataDir, 'agents/1/id'), 'utf8')).toBe(`${id}\n`)
  })

  test('one that is removed is made again, under the same id', async () => {
    const dataDir = temporaryFolder()
    const folder = await opened(dataDir)
    rmSync(dataDir, { recursive: true })
    const id = () => readFileSync(join(folder.path ?? '', 'id'), 'utf8')
    await untilHolds(() => expect(id()).toBe(`${folder.id}\n`))
    await untilHolds(() => expect(folder.isHeld()).toBe(true))
    await folder.store('monitors', Buffer.from('x'))
    expect((await folder.read('monitors'))?.toString()).toBe('x')
  })

  test('one that another agent acquired is reported', async () => {
    const dataDir = temporaryFolder()
    const lost = new Promise<string>((resolve) => {
      void opened(dataDir, FAKE_KEY, () => resolve('lost'))
    })
    await untilHolds(() => expect(open).toHaveLength(1))
    rmSync(join(dataDir, 'agents/1'), { recursive: true })
    const other = await opened(dataDir)
    expect(other.path).toBe(join(dataDir, 'agents/1'))
    expect(await lost).toBe('lost')
    expect([open[0]?.isHeld(), other.isHeld()]).toEqual([false, true])
  })
})

describe('without DATA_DIR', () => {
  test('the folder is named by the key, which cannot be read from it', async () => {
    const { path = '', cipher } = await opened(undefined)
    expect(path).toBe(join(tmpdir(), `vedette-${cipher.fingerprint}`, 'agents/1'))
    expect(cipher.fingerprint).toMatch(/^[0-9a-f]{12}$/)
    expect(createAgentCipher(`${FAKE_KEY}x`).fingerprint).not.toBe(cipher.fingerprint)
    rmSync(join(path, '../..'), { recursive: true })
  })

  test.each([
    ['others may write to', (path: string) => (mkdirSync(path), chmodSync(path, 0o777))],
    ['is a link', (path: string) => symlinkSync(temporaryFolder(), path)],
    ['is a file', (path: string) => writeFileSync(path, '')],
  ])('one that %s is not used', async (_, make) => {
    vi.stubEnv('TMPDIR', temporaryFolder())
    make(join(tmpdir(), `vedette-${createAgentCipher(FAKE_KEY).fingerprint}`))
    const folder = await opened(undefined)
    expect(folder.path).toBeUndefined()
    expect(folder.problem).toBeDefined()
  })
})

test('without a writable folder the agent still gets an id, and the reason', async () => {
  const file = join(temporaryFolder(), 'file')
  writeFileSync(file, '')
  const [first, second] = [await opened(file), await opened(file)]
  expect(first.path).toBeUndefined()
  expect(first.problem).toContain(file)
  expect(first.id).not.toBe(second.id)
  expect(await first.read('monitors')).toBeUndefined()
  await expect(first.store('monitors', Buffer.from('x'))).rejects.toThrow(file)
})

describe('a stored file', () => {
  test('is there after a restart, and is not readable on disk', async () => {
    const dataDir = temporaryFolder()
    const first = await opened(dataDir)
    await first.store('monitors', Buffer.from('older'))
    await first.store('monitors', Buffer.from('the password is tulip'))
    first.close()
    const second = await opened(dataDir)
    expect((await second.read('monitors'))?.toString()).toBe('the password is tulip')
    const bytes = readFileSync(join(second.path ?? '', 'monitors'))
    expect(bytes.includes('tulip')).toBe(false)
    expect(statSync(join(second.path ?? '', 'monitors')).mode & 0o777).toBe(0o600)
  })

  test('is not opened by another key, under another name, or when one byte differs', async () => {
    const dataDir = temporaryFolder()
    const first = await opened(dataDir)
    await first.store('monitors', Buffer.from('x'))
    const file = join(first.path ?? '', 'monitors')
    const bytes = readFileSync(file)
    writeFileSync(join(first.path ?? '', 'other'), bytes)
    expect(await first.read('other')).toBeUndefined()
    expect(createAgentCipher('pl_another_key').decrypt(bytes, 'monitors')).toBeUndefined()
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ 1
      expect(first.cipher.decrypt(changed, 'monitors')).toBeUndefined()
      expect(first.cipher.decrypt(bytes.subarray(0, at), 'monitors')).toBeUndefined()
    }
  })
})
