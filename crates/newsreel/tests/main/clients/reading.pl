# Reads everything that a server has with Net::NNTP and compares it with the files that were fed; then posts.
#
# reading.pl PORT DIR GROUP: DIR holds the articles, one a file, LF line ends; GROUP takes the post.
use strict;
use warnings;
use File::Find;
use Net::NNTP;

my ($port, $dir, $group) = @ARGV;

sub check { my ($right, $what) = @_; die "$what\n" unless $right; }

my %fed;
find({ no_chdir => 1, wanted => sub {
    return unless -f $_;
    open my $file, '<:raw', $_ or die "$_: $!";
    my $text = do { local $/; <$file> };
    my ($head, $body) = split /\n\n/, $text, 2;
    my ($key) = $head =~ /^Message-ID:\s*(\S+)/mi;
    push @{ $fed{$key} }, $body;
} }, $dir);

my $server = Net::NNTP->new(Host => '127.0.0.1', Port => $port, Timeout => 20) or die "no connection: $@";
check($server->postok, 'posting is not permitted');
check(abs($server->date - time) < 60, 'DATE is not now');

my $active = $server->list or die 'LIST';
my $descriptions = $server->newsgroups('misc.*') or die 'LIST NEWSGROUPS';
check($descriptions->{'misc.test'} eq 'For trying things out', 'description of misc.test');
my $format = $server->overview_fmt or die 'LIST OVERVIEW.FMT';
check($format->[3] eq 'Message-ID:', 'the fourth field of overview');
my $new = $server->newgroups(time - 86_400) or die 'NEWGROUPS';
check(keys %$new == keys %$active, 'NEWGROUPS and LIST differ');

my %seen;
for my $name (sort keys %$active) {
    my ($count, $first, $last) = $server->group($name) or die "GROUP $name";
    check($last == $active->{$name}[0] && $first == $active->{$name}[1], "marks of $name");
    next unless $count;
    check(@{ $server->listgroup($name) } == $count, "LISTGROUP $name");
    my $rows = $server->xover([$first, $last]) or die "XOVER $name";
    my $subjects = $server->xhdr('Subject', [$first, $last]) or die "XHDR $name";
    check(keys %$rows == $count, "rows of $name");
    $server->nntpstat($first) or die "STAT $first";
    my $walked = 1;
    $walked++ while $server->next;
    check($walked == $count, "NEXT sees $walked of $count in $name");
    check($count == 1 || defined $server->last, "LAST in $name");
    for my $number (sort { $a <=> $b } keys %$rows) {
        my ($subject, $key) = @{ $rows->{$number} }[0, 3];
        # Net::NNTP leaves out all blanks before what XHDR answers; overview has all but the first.
        check($subjects->{$number} eq $subject =~ s/^\s+//r, "Subject of $name:$number");
        my $body = join '', @{ $server->body($number) };
        check(scalar(grep { $_ eq $body } @{ $fed{$key} }), "body of $name:$number $key");
        $seen{$key} = 1;
    }
}
check(keys %seen == keys %fed, 'not everything that was fed is in a group');
for my $key (keys %fed) {
    my $article = join '', @{ $server->article($key) };
    my ($head, $body) = split /\n\n/, $article, 2;
    check(scalar(grep { $_ eq $body } @{ $fed{$key} }), "body of $key");
    check(join('', @{ $server->head($key) }) eq "$head\n", "head of $key");
}
my $ids = $server->newnews(time - 86_400, '*') or die 'NEWNEWS';
check(@$ids == keys %fed, 'NEWNEWS tells ' . @$ids);

my @text = ("From: pat\@x.example\n", "Newsgroups: $group\n", "Subject: From Net::NNTP\n", "\n", "Perl.\n", ".dot\n");
my ($before) = $server->group($group);
$server->post(@text) or die 'POST: ' . $server->message;
my ($count, undef, $last) = $server->group($group);
check($count == $before + 1, 'the post is not there');
check(join('', @{ $server->body($last) }) eq "Perl.\n.dot\n", 'body of the post');
check(!defined $server->article('<none.such@x.example>') && $server->code == 430, 'an article that is none');
my @offered = ("Path: peer.example!not-for-mail\n", "Date: 15 Apr 1993 12:00:00 GMT\n", "Message-ID: <pl.1\@x.example>\n");
$server->ihave('<pl.1@x.example>', @offered, @text) or die 'IHAVE: ' . $server->message;
check(!$server->ihave('<pl.1@x.example>', @offered, @text) && $server->code == 435, 'IHAVE takes it twice');
$server->quit;
print scalar(keys %fed), " articles read\n";
