// Aim: settings of the platform that clients see contain no credentials, and all others are known as secrets.
import { expect, test } from 'vitest'
import { readPlatformConfig } from '../../src/platform/config.ts'

test.each(['https://user:hush-hush@a.test', 'https://hush-hush@a.test'])(
  'PUBLIC_URL is refused with credentials: %s',
  (url) => {
    const { problems } = readPlatformConfig({ PUBLIC_URL: url })
    expect(problems).toMatchObject([{ variable: 'PUBLIC_URL' }])
    expect(JSON.stringify(problems)).not.toContain('hush')
    expect(readPlatformConfig({ PUBLIC_URL: 'https://a.test/x' }).problems).toEqual([])
  },
)

test('passwords of addresses are secrets, as they stand there and decoded, and a key of the proxy', () => {
  const { secrets } = readPlatformConfig({
    DATABASE_URL: 'postgres://vedette:a%40b@h/d',
    SENTRY_DSN: 'https://public-key@h/1',
    HTTPS_PROXY: 'http://proxy-k3y:@h:3128',
  })
  expect(secrets.toSorted()).toEqual(['a%40b', 'a@b', 'proxy-k3y', 'proxy-k3y', 'public-key'])
})
