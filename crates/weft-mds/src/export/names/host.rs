//! The user and group databases of the machine (passwd, group, and what they are served by).

use std::{ffi::CString, io, sync::Arc};

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

/// What the host can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Question {
    /// The number of a user.
    UserId(String),
    /// The number of a group.
    GroupId(String),
    /// The name of a user.
    UserName(u32),
    /// The name of a group.
    GroupName(u32),
    /// The groups of a user.
    GroupsOf(u32),
}

/// What the host answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// There is no such user or group.
    Unknown,
    /// A number.
    Id(u32),
    /// A name.
    Name(String),
    /// Groups.
    Groups(Arc<[u32]>),
}

/// Who can be asked about users and groups.
pub trait Host: std::fmt::Debug + Send + Sync {
    /// Answers a question; may block for long.
    ///
    /// # Errors
    /// The answer cannot be had now.
    fn ask(&self, question: &Question) -> io::Result<Answer>;
}

/// This machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemHost;

impl Host for SystemHost {
    fn ask(&self, question: &Question) -> io::Result<Answer> {
        let answer = match question {
            Question::UserId(name) => User::from_name(name)?.map(|u| Answer::Id(u.uid.as_raw())),
            Question::GroupId(name) => Group::from_name(name)?.map(|g| Answer::Id(g.gid.as_raw())),
            Question::UserName(id) => {
                User::from_uid(Uid::from_raw(*id))?.map(|u| Answer::Name(u.name))
            }
            Question::GroupName(id) => {
                Group::from_gid(Gid::from_raw(*id))?.map(|g| Answer::Name(g.name))
            }
            Question::GroupsOf(id) => {
                User::from_uid(Uid::from_raw(*id))?.map(groups).transpose()?
            }
        };
        Ok(answer.unwrap_or(Answer::Unknown))
    }
}

fn groups(user: User) -> io::Result<Answer> {
    let name = CString::new(user.name)?;
    let groups = getgrouplist(&name, user.gid)?;
    Ok(Answer::Groups(groups.into_iter().map(Gid::as_raw).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The superuser is known everywhere, by name and by number, and a name that cannot be is not.
    #[test]
    fn the_superuser_is_known() {
        let host = SystemHost;
        let ask = |question| host.ask(&question).unwrap();
        assert_eq!(ask(Question::UserId("root".into())), Answer::Id(0));
        assert_eq!(ask(Question::UserName(0)), Answer::Name("root".into()));
        assert_eq!(ask(Question::GroupId("root".into())), Answer::Id(0));
        assert_eq!(ask(Question::GroupName(0)), Answer::Name("root".into()));
        let Answer::Groups(groups) = ask(Question::GroupsOf(0)) else { panic!("no groups") };
        assert!(groups.contains(&0));
        assert_eq!(ask(Question::UserId("no:such:user".into())), Answer::Unknown);
    }
}
