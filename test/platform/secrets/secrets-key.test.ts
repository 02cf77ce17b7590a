// Aim: secrets are sealed so that nothing but their key opens them, and a platform never starts with
// another key than the one that its database was begun with.
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createSealer, SealError } from '../../../src/platform/secrets/cipher.ts'
import { ensureSealer, SecretsKeyError } from '../../../src/platform/secrets/secrets-key.ts'
import { knownFault } from '../../../src/platform/run-platform.ts'
import { createTestDatabase } from '../../support/database/database.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const KEY = 'k'.repeat(32)

describe('a sealer', () => {
  const sealer = createSealer(KEY)

  test.each(['', 'x', '\u{1F6A8}', 'long '.repeat(100_000)])('opens what it sealed', (text) => {
    const sealed = sealer.seal(text)
    expect(sealed).toMatch(/^s1\.[\w-]+$/)
    expect(sealer.open(sealed)).toBe(text)
    expect(sealer.seal(text)).not.toBe(sealed)
    expect(createSealer(KEY).open(sealed)).toBe(text)
  })

  test('opens nothing that was sealed under another key, changed, or never sealed', () => {
    const sealed = sealer.seal('text')
    expect(() => createSealer(`${KEY}x`).open(sealed)).toThrow(SealError)
    const bytes = Buffer.from(sealed.slice(3), 'base64url')
    for (const at of bytes.keys()) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ 1
      expect(() => sealer.open(`s1.${changed.toString('base64url')}`)).toThrow(SealError)
    }
    for (const bad of ['', 's1.', 'text', sealed.slice(3), sealed.slice(0, -8)]) {
      expect(() => sealer.open(bad)).toThrow(SealError)
    }
  })

  test('has a fingerprint that tells keys apart', () => {
    expect(createSealer(KEY).fingerprint.equals(sealer.fingerprint)).toBe(true)
    expect(createSealer(`${KEY}x`).fingerprint.equals(sealer.fingerprint)).toBe(false)
    expect(sealer.fingerprint.toString()).not.toContain(KEY)
  })
})

describe('the key of a database', () => {
  const start = async (work: (ensure: typeof attempt) => Promise<void>) => {
    const { database, drop } = await createTestDatabase()
    try {
      await work((dataDir, secretsKey) => ensureSealer(database, { dataDir, secretsKey }))
    } finally {
      await drop()
    }
  }
  const attempt = (_dataDir: string, _secretsKey?: string) => Promise.resolve(createSealer(KEY))

  test('is made once, kept for its owner alone, and found again', () =>
    start(async (ensure) => {
      const folder = temporaryFolder()
      const sealers = await Promise.all([ensure(folder), ensure(folder), ensure(folder)])
      const path = join(folder, 'secrets.key')
      expect(statSync(path).mode & 0o777).toBe(0o600)
      const given = await ensure(temporaryFolder(), readFileSync(path, 'utf8').trim())
      for (const one of sealers) expect(one.open(given.seal('text'))).toBe('text')
    }))

  test('is asked for where it is missing', () =>
    start(async (ensure) => {
      const folder = temporaryFolder()
      await ensure(folder)
      rmSync(join(folder, 'secrets.key'))
      await expect(ensure(folder)).rejects.toMatchObject({
        code: 'SECRETS_KEY',
        message: expect.stringMatching(/missing.*bring the file back, or set SECRETS_KEY/),
      })
    }))

  test.each([
    ['another SECRETS_KEY', (ensure: typeof attempt) => ensure(temporaryFolder(), 'o'.repeat(32))],
    [
      'another file',
      (ensure: typeof attempt) => {
        const folder = temporaryFolder()
        writeFileSync(join(folder, 'secrets.key'), 'o'.repeat(32))
        return ensure(folder)
      },
    ],
    [
      'an empty file',
      (ensure: typeof attempt) => {
        const folder = temporaryFolder()
        writeFileSync(join(folder, 'secrets.key'), '')
        return ensure(folder)
      },
    ],
  ])('is not %s: exit code 2 with what to do', (_sentence, other) =>
    start(async (ensure) => {
      await ensure(temporaryFolder(), KEY)
      const error: unknown = await other(ensure).catch((failure: unknown) => failure)
      expect(error).toBeInstanceOf(SecretsKeyError)
      expect(knownFault(error)?.exitCode).toBe(2)
      await ensure(temporaryFolder(), KEY)
    }),
  )
})
